/* The API, a row a method and path.  proto/api/openapi.yaml says the same to clients; a
 * test holds one against the other. */
#include "controller/api/rest_internal.h"

const struct rest_route rest_routes[] = {
    { EVHTTP_REQ_GET, "/healthz", ROLE_NONE, false, rest_get_healthz },
    { EVHTTP_REQ_GET, "/readyz", ROLE_NONE, false, rest_get_readyz },
    { EVHTTP_REQ_GET, "/metrics", ROLE_NONE, false, rest_get_metrics },
    { EVHTTP_REQ_GET, "/openapi.json", ROLE_NONE, false, rest_get_openapi },
    { EVHTTP_REQ_GET, "/v1/status", ROLE_VIEWER, true, rest_get_status },
    { EVHTTP_REQ_GET, "/v1/trace", ROLE_VIEWER, true, rest_get_trace },
    { EVHTTP_REQ_GET, "/v1/region", ROLE_VIEWER, true, rest_get_region },
    { EVHTTP_REQ_PUT, "/v1/region", ROLE_ADMIN, true, rest_put_region },
    { EVHTTP_REQ_GET, "/v1/clusters", ROLE_VIEWER, true, rest_list_clusters },
    { EVHTTP_REQ_GET, "/v1/clusters/{name}", ROLE_VIEWER, true, rest_get_cluster },
    { EVHTTP_REQ_PUT, "/v1/clusters/{name}", ROLE_ADMIN, true, rest_put_cluster },
    { EVHTTP_REQ_DELETE, "/v1/clusters/{name}", ROLE_ADMIN, true, rest_delete_cluster },
    { EVHTTP_REQ_GET, "/v1/nodes", ROLE_VIEWER, true, rest_list_nodes },
    { EVHTTP_REQ_GET, "/v1/nodes/{name}", ROLE_VIEWER, true, rest_get_node },
    { EVHTTP_REQ_PUT, "/v1/nodes/{name}", ROLE_ADMIN, true, rest_put_node },
    { EVHTTP_REQ_DELETE, "/v1/nodes/{name}", ROLE_ADMIN, true, rest_delete_node },
    { EVHTTP_REQ_GET, "/v1/tenants", ROLE_VIEWER, true, rest_list_tenants },
    { EVHTTP_REQ_GET, "/v1/tenants/{vni}", ROLE_VIEWER, true, rest_get_tenant },
    { EVHTTP_REQ_PUT, "/v1/tenants/{vni}", ROLE_OPERATOR, true, rest_put_tenant },
    { EVHTTP_REQ_DELETE, "/v1/tenants/{vni}", ROLE_OPERATOR, true, rest_delete_tenant },
    { EVHTTP_REQ_GET, "/v1/tenants/{vni}/routes", ROLE_VIEWER, true, rest_list_routes },
    { EVHTTP_REQ_GET, "/v1/tenants/{vni}/routes/{prefix}", ROLE_VIEWER, true,
      rest_get_route },
    { EVHTTP_REQ_PUT, "/v1/tenants/{vni}/routes/{prefix}", ROLE_OPERATOR, true,
      rest_put_route },
    { EVHTTP_REQ_DELETE, "/v1/tenants/{vni}/routes/{prefix}", ROLE_OPERATOR, true,
      rest_delete_route },
    { EVHTTP_REQ_GET, "/v1/tenants/{vni}/vms", ROLE_VIEWER, true, rest_list_vms },
    { EVHTTP_REQ_GET, "/v1/tenants/{vni}/vms/{vm}", ROLE_VIEWER, true, rest_get_vm },
    { EVHTTP_REQ_PUT, "/v1/tenants/{vni}/vms/{vm}", ROLE_OPERATOR, true, rest_put_vm },
    { EVHTTP_REQ_DELETE, "/v1/tenants/{vni}/vms/{vm}", ROLE_OPERATOR, true,
      rest_delete_vm },
    { EVHTTP_REQ_POST, "/v1/entries", ROLE_OPERATOR, true, rest_post_entries },
};

const unsigned rest_route_count = sizeof(rest_routes) / sizeof(rest_routes[0]);
