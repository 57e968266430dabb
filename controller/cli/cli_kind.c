#include "controller/cli/cli_kind.h"

#include <string.h>

#include "controller/cli/cli_http.h"

static const char *const region_fields[] = {
    "name",           "steering",       "ecmp_limit",       "admission_hold_ms",
    "icmp_source_v4", "icmp_source_v6", "underlay_sources", NULL
};
static const char *const policy_fields[] = { "services", NULL };
static const char *const cluster_fields[] = { "name",           "kind",    "state",
                                              "active_side",    "vip_v4",  "vip_v6",
                                              "udp6_zero_csum", "profile", "backing",
                                              "fallback_meter", NULL };
static const char *const node_fields[] = { "name",        "cluster",     "kind",
                                           "side",        "vtep_v4",     "vtep_v6",
                                           "fallback_v4", "fallback_v6", "uplinks",
                                           NULL };
static const char *const tenant_fields[] = {
    "vni",   "cluster",         "h_home",       "half",         "name",
    "flags", "reserved_routes", "reserved_vms", "reserved_bps", "reserved_pps",
    NULL
};
static const char *const route_fields[] = { "vni",      "prefix",   "scope",
                                            "peer_vni", "endpoint", "endpoint_vni",
                                            "service",  NULL };
static const char *const vm_fields[] = { "vni", "vm", "nc", "mac", NULL };

static const char *const rule_fields[] = { "vni",   "priority", "src",
                                           "dst",   "proto",    "sport",
                                           "dport", "action",   NULL };
static const char *const meter_fields[] = { "vni",        "committed_bps",
                                            "peak_bps",   "committed_burst",
                                            "peak_burst", NULL };

static const char *const festival_fields[] = {
    "name", "starts", "ends", "growth_percent", "levels", "tenants", NULL
};
static const char *const consumer_fields[] = { "name", NULL };
static const char *const levels_fields[] = { "x86", "xgw-h", "lb", NULL };

static const char *const levels_answers[] = { "revision", NULL };
static const char *const policy_answers[] = { "pending", "revision", NULL };
static const char *const object_answers[] = { "status", "revision", NULL };
static const char *const tenant_answers[] = { "table", "rules", "revision", NULL };
static const char *const entry_answers[] = { "table", "revision", NULL };

static const struct cli_column region_columns[] = {
    { "NAME", "name" },
    { "STEERING", "steering" },
    { "ICMP V4", "icmp_source_v4" },
    { "ICMP V6", "icmp_source_v6" },
    { "UNDERLAY SOURCES", "underlay_sources" },
    { "REVISION", "revision" },
    { NULL, NULL },
};

static const struct cli_column policy_columns[] = {
    { "LOCAL", "services.local" },
    { "PEER", "services.peer" },
    { "IDC", "services.idc" },
    { "REGION", "services.region" },
    { "INTERNET", "services.internet" },
    { "SERVICE", "services.service" },
    { "PENDING", "pending" },
    { NULL, NULL },
};

static const struct cli_column cluster_columns[] = {
    { "NAME", "name" },
    { "KIND", "kind" },
    { "STATE", "state" },
    { "BACKING", "backing" },
    { "SIDE", "active_side" },
    { "VIP V4", "vip_v4" },
    { "VIP V6", "vip_v6" },
    { "TENANTS", "status.placement.tenants" },
    { "ROUTES", "status.vxlan_route" },
    { "VMS", "status.vm_nc" },
    { "TAKES", "status.placement.takes_tenants" },
    { "LEVEL", "status.level" },
    { "FULLEST", "status.fullest" },
    { "USED %", "status.placement.used_percent" },
    { NULL, NULL },
};

static const struct cli_column levels_columns[] = {
    { "X86 SALE", "x86.sale" },
    { "SAFE", "x86.safe" },
    { "CRITICAL", "x86.critical" },
    { "CLEAR", "x86.clear" },
    { "DROP RATE", "x86.drop_rate" },
    { "XGW-H SALE", "xgw-h.sale" },
    { "SAFE", "xgw-h.safe" },
    { "CRITICAL", "xgw-h.critical" },
    { "CLEAR", "xgw-h.clear" },
    { "DROP RATE", "xgw-h.drop_rate" },
    { NULL, NULL },
};

static const struct cli_column festival_columns[] = {
    { "NAME", "name" },
    { "STATE", "status.state" },
    { "STARTS", "starts" },
    { "ENDS", "ends" },
    { "GROWTH %", "growth_percent" },
    { "EXPECTED %", "status.outlook.percent" },
    { "OF", "status.outlook.resource" },
    { "FITS", "status.outlook.fits" },
    { "TENANTS", "tenants" },
    { NULL, NULL },
};

static const struct cli_column consumer_columns[] = {
    { "NAME", "name" },
    { "ACKNOWLEDGED", "status.acknowledged_revision" },
    { "LAST SEEN", "status.last_seen" },
    { "AWAITED S", "status.awaited_seconds" },
    { "BY", "status.awaited_by" },
    { NULL, NULL },
};

static const struct cli_column steering_columns[] = {
    { "VNI", "vni" },       { "CLUSTER", "cluster" }, { "VIP V4", "vip_v4" },
    { "VIP V6", "vip_v6" }, { NULL, NULL },
};

static const struct cli_column alarm_columns[] = {
    { "ID", "id" },         { "SEVERITY", "severity" }, { "STATE", "state" },
    { "KIND", "kind" },     { "SUBJECT", "subject" },   { "COUNT", "count" },
    { "FOLDED", "folded" }, { "TEXT", "text" },         { NULL, NULL },
};

static const struct cli_column node_columns[] = {
    { "NAME", "name" },
    { "CLUSTER", "cluster" },
    { "KIND", "kind" },
    { "SIDE", "side" },
    { "STATE", "status.state" },
    { "IN SYNC", "status.in_sync" },
    { "APPLIED", "status.applied" },
    { "DESIRED", "status.desired" },
    { "EXCEPTIONS", "status.exception_count" },
    { "LEVEL", "status.level" },
    { "VTEP V4", "vtep_v4" },
    { "VTEP V6", "vtep_v6" },
    { "UPLINKS", "uplinks" },
    { NULL, NULL },
};

static const struct cli_column tenant_columns[] = {
    { "VNI", "vni" },       { "NAME", "name" },   { "CLUSTER", "cluster" },
    { "H HOME", "h_home" }, { "FLAGS", "flags" }, { "ROUTES", "routes" },
    { "VMS", "vms" },       { "RULES", "rules" }, { "REVISION", "revision" },
    { NULL, NULL },
};

static const struct cli_column route_columns[] = {
    { "VNI", "vni" },           { "PREFIX", "prefix" },
    { "SCOPE", "scope" },       { "PEER", "peer_vni" },
    { "ENDPOINT", "endpoint" }, { "ENDPOINT VNI", "endpoint_vni" },
    { "SERVICE", "service" },   { NULL, NULL },
};

static const struct cli_column vm_columns[] = {
    { "VNI", "vni" }, { "VM", "vm" }, { "NC", "nc" }, { "MAC", "mac" }, { NULL, NULL },
};

static const struct cli_column rule_columns[] = {
    { "VNI", "vni" },     { "PRIORITY", "priority" }, { "SRC", "src" },
    { "DST", "dst" },     { "PROTO", "proto" },       { "SPORT", "sport" },
    { "DPORT", "dport" }, { "ACTION", "action" },     { NULL, NULL },
};

static const struct cli_column meter_columns[] = {
    { "VNI", "vni" },
    { "COMMITTED BIT/S", "committed_bps" },
    { "PEAK BIT/S", "peak_bps" },
    { "COMMITTED BURST", "committed_burst" },
    { "PEAK BURST", "peak_burst" },
    { NULL, NULL },
};

static const struct cli_column operation_columns[] = {
    { "ID", "id" },         { "KIND", "kind" },           { "CLUSTER", "cluster" },
    { "VNI", "vni" },       { "FROM", "from.cluster" },   { "H", "from.h_home" },
    { "TO", "to.cluster" }, { "H", "to.h_home" },         { "STATE", "state" },
    { "STEP", "step" },     { "WAITS FOR", "waits_for" }, { "REASON", "reason" },
    { NULL, NULL },
};

static const struct cli_column audit_columns[] = {
    { "ID", "id" },           { "NODE", "node" },
    { "CLUSTER", "cluster" }, { "VNI", "vni" },
    { "WHO", "who" },         { "STATE", "state" },
    { "RESULT", "result" },   { "MISSING", "missing" },
    { "EXTRA", "extra" },     { "DIFFERENT", "different" },
    { "ENDED", "ended" },     { "REASON", "reason" },
    { NULL, NULL },
};

static const struct cli_column probes_columns[] = {
    { "ID", "id" },           { "NODE", "node" },
    { "CLUSTER", "cluster" }, { "VNI", "vni" },
    { "WHO", "who" },         { "STATE", "state" },
    { "RESULT", "result" },   { "PROBES", "probes" },
    { "AGREED", "agreed" },   { "DIFFERED", "differed" },
    { "UNSAID", "unsaid" },   { "ENDED", "ended" },
    { "REASON", "reason" },   { NULL, NULL },
};

const struct cli_kind cli_kinds[CLI_KINDS] = {
    { "region",
      "region",
      0,
      0,
      "",
      region_fields,
      object_answers,
      region_columns,
      { "clusters", NULL } },
    { "policy",
      "policy",
      0,
      0,
      "",
      policy_fields,
      policy_answers,
      policy_columns,
      { NULL, NULL } },
    { "cluster",
      "clusters",
      1,
      0,
      "[NAME]",
      cluster_fields,
      object_answers,
      cluster_columns,
      { "nodes", NULL } },
    { "node",
      "nodes",
      1,
      0,
      "[NAME]",
      node_fields,
      object_answers,
      node_columns,
      { NULL, NULL } },
    { "tenant",
      "tenants",
      1,
      0,
      "[VNI]",
      tenant_fields,
      tenant_answers,
      tenant_columns,
      { "routes", "vms", "acl" } },
    { "route",
      "routes",
      2,
      1,
      "VNI [PREFIX]",
      route_fields,
      entry_answers,
      route_columns,
      { NULL, NULL } },
    { "vm",
      "vms",
      2,
      1,
      "VNI [ADDRESS]",
      vm_fields,
      entry_answers,
      vm_columns,
      { NULL, NULL } },
    { "acl",
      "acl",
      2,
      1,
      "VNI [PRIORITY,SRC,DST,PROTO,SPORT,DPORT]",
      rule_fields,
      entry_answers,
      rule_columns,
      { NULL, NULL } },
    { "meter",
      "meter",
      1,
      1,
      "VNI",
      meter_fields,
      entry_answers,
      meter_columns,
      { NULL, NULL } },
    { "levels",
      "levels",
      0,
      0,
      "",
      levels_fields,
      levels_answers,
      levels_columns,
      { NULL, NULL } },
    { "festival",
      "festivals",
      1,
      0,
      "[NAME]",
      festival_fields,
      object_answers,
      festival_columns,
      { NULL, NULL } },
    { "consumer",
      "consumers",
      1,
      0,
      "[NAME]",
      consumer_fields,
      object_answers,
      consumer_columns,
      { NULL, NULL } },
    { "steering",
      "steering",
      1,
      0,
      "[VNI]",
      NULL,
      NULL,
      steering_columns,
      { NULL, NULL } },
    { "operation",
      "operations",
      1,
      0,
      "[ID]",
      NULL,
      NULL,
      operation_columns,
      { NULL, NULL } },
    { "audit", "audits", 1, 0, "[ID]", NULL, NULL, audit_columns, { NULL, NULL } },
    { "probe", "probes", 1, 0, "[ID]", NULL, NULL, probes_columns, { NULL, NULL } },
    { "alarm", "alarms", 1, 0, "[ID]", NULL, NULL, alarm_columns, { NULL, NULL } },
};

const struct cli_kind *cli_kind_find(const char *name)
{
    for (unsigned i = 0; i < CLI_KINDS; i++) {
        if (strcmp(cli_kinds[i].singular, name) == 0 ||
            strcmp(cli_kinds[i].plural, name) == 0) {
            return &cli_kinds[i];
        }
    }
    return NULL;
}

void cli_kind_path(const struct cli_kind *kind, const char *const *keys, unsigned count,
                   struct buf *path)
{
    unsigned i = 0;

    buf_text(path, "/v1");
    if (kind->parent_count > 0) {
        buf_text(path, "/tenants");
        cli_http_path(path, keys[i++]);
    }
    buf_printf(path, "/%s", kind->plural);
    while (i < count && i < kind->key_count) {
        cli_http_path(path, keys[i++]);
    }
}
