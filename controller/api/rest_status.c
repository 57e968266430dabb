/* Health, status, metrics, and the API's own description. */
#include "controller/api/rest_internal.h"

#include "controller/api/openapi_json.h"

#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

void rest_get_healthz(struct rest_request *r)
{
    rest_reply_text(r, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void rest_get_readyz(struct rest_request *r)
{
    if (core_is_ready(core_of(r))) {
        rest_reply_text(r, 200, "text/plain; charset=utf-8", "ready\n", 6);
    } else {
        rest_reply_text(r, 503, "text/plain; charset=utf-8", "loading\n", 8);
    }
}

void rest_get_openapi(struct rest_request *r)
{
    rest_reply_text(r, 200, "application/json", openapi_json, openapi_json_len);
}

/* ---- status ---- */

/* Tables that hold what the API puts; the others are devices', derived from them. */
static bool is_intent(int table)
{
    return table != TABLE_VNI && table != TABLE_VNI_CLUSTER;
}

static json_t *tables_json(const struct core *core)
{
    json_t *tables = json_object();

    for (int table = 0; table < TABLE_COUNT; table++) {
        char digest[17];

        if (!is_intent(table)) {
            continue;
        }
        snprintf(digest, sizeof(digest), "%016llx",
                 (unsigned long long)core_digest(core, (enum table_id)table).sum);
        json_object_set_new(
            tables, table_name((enum table_id)table),
            json_pack("{s:I, s:s}", "entries",
                      (json_int_t)core_count(core, (enum table_id)table), "digest",
                      digest));
    }
    return tables;
}

static json_t *counts_json(const struct core *core)
{
    struct node_status status;
    const struct node *node;
    json_int_t clusters = 0;
    json_int_t nodes = 0;
    json_int_t online = 0;
    json_int_t in_sync = 0;

    while (core_cluster_at(core, (uint32_t)clusters)) {
        clusters++;
    }
    while ((node = core_node_at(core, (uint32_t)nodes)) != NULL) {
        if (core_node_status(core, node->name, &status) == RC_OK) {
            online += status.state == NODE_ONLINE;
            in_sync += status.in_sync;
        }
        nodes++;
    }
    return json_pack("{s:I, s:I, s:I, s:I}", "clusters", clusters, "nodes", nodes,
                     "online", online, "in_sync", in_sync);
}

void rest_get_status(struct rest_request *r)
{
    const struct core *core = core_of(r);
    json_t *json = json_pack("{s:s, s:I, s:I, s:o, s:o, s:i}", "version", XGW_VERSION,
                             "revision", (json_int_t)core_revision(core), "term",
                             (json_int_t)shell_term(r->rest->config.shell), "tables",
                             tables_json(core), "counts", counts_json(core), "sessions",
                             (int)sessions_count(r->rest->config.sessions));

    rest_reply_json(r, 200, json);
}

/* ---- metrics ---- */

void rest_metric(struct buf *to, const char *name, const char *type, const char *help)
{
    buf_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct node_metric {
    const char *name;
    const char *type;
    const char *help;
    uint64_t (*value)(const struct node_status *s);
};

static uint64_t is_online(const struct node_status *s)
{
    return s->state == NODE_ONLINE;
}

static uint64_t is_in_sync(const struct node_status *s)
{
    return s->in_sync;
}

static uint64_t applied(const struct node_status *s)
{
    return s->applied;
}

static uint64_t exceptions(const struct node_status *s)
{
    return s->exception_count;
}

static uint64_t rx_packets(const struct node_status *s)
{
    return s->rx_packets;
}

static uint64_t tx_packets(const struct node_status *s)
{
    return s->tx_packets;
}

static uint64_t drops(const struct node_status *s)
{
    return s->drops;
}

static const struct node_metric node_metrics[] = {
    { "xgw_node_online", "gauge", "Whether the node is online.", is_online },
    { "xgw_node_in_sync", "gauge", "Whether the node holds what it should.",
      is_in_sync },
    { "xgw_node_applied_revision", "gauge", "Revision that the node has applied.",
      applied },
    { "xgw_node_exceptions", "gauge", "Entries that the node refused or left unknown.",
      exceptions },
    { "xgw_node_received_packets_total", "counter", "Packets received on all ports.",
      rx_packets },
    { "xgw_node_sent_packets_total", "counter", "Packets sent on all ports.",
      tx_packets },
    { "xgw_node_dropped_packets_total", "counter", "Packets dropped for any reason.",
      drops },
};

static void print_node_metrics(const struct core *core, struct buf *to)
{
    for (unsigned m = 0; m < sizeof(node_metrics) / sizeof(node_metrics[0]); m++) {
        const struct node *n;
        struct node_status status;

        rest_metric(to, node_metrics[m].name, node_metrics[m].type,
                    node_metrics[m].help);
        for (uint32_t i = 0; (n = core_node_at(core, i)) != NULL; i++) {
            if (core_node_status(core, n->name, &status) == RC_OK) {
                buf_printf(to, "%s{node=\"%s\",cluster=\"%s\"} %llu\n",
                           node_metrics[m].name, n->name, n->cluster,
                           (unsigned long long)node_metrics[m].value(&status));
            }
        }
    }
}

void rest_get_metrics(struct rest_request *r)
{
    const struct core *core = core_of(r);
    struct buf text = BUF_INIT;

    rest_metric(&text, "xgw_ready", "gauge", "Whether the region is loaded.");
    buf_printf(&text, "xgw_ready %d\n", core_is_ready(core));
    rest_metric(&text, "xgw_revision", "gauge", "Revision of the committed state.");
    buf_printf(&text, "xgw_revision %llu\n", (unsigned long long)core_revision(core));
    rest_metric(&text, "xgw_entries", "gauge", "Entries of the region by table.");
    for (int table = 0; core_is_ready(core) && table < TABLE_COUNT; table++) {
        if (is_intent(table)) {
            buf_printf(&text, "xgw_entries{table=\"%s\"} %llu\n",
                       table_name((enum table_id)table),
                       (unsigned long long)core_count(core, (enum table_id)table));
        }
    }
    rest_metric(&text, "xgw_http_requests_total", "counter", "REST requests.");
    buf_printf(&text, "xgw_http_requests_total %llu\n",
               (unsigned long long)r->rest->requests_total);
    rest_metric(&text, "xgw_http_errors_total", "counter", "REST answers of 5xx.");
    buf_printf(&text, "xgw_http_errors_total %llu\n",
               (unsigned long long)r->rest->errors_total);
    rest_metric(&text, "xgw_sessions", "gauge", "Sessions with devices.");
    buf_printf(&text, "xgw_sessions %u\n", sessions_count(r->rest->config.sessions));
    if (core_is_ready(core)) {
        print_node_metrics(core, &text);
        rest_print_health_metrics(core_health(core), &text);
    }
    if (r->rest->config.alertmanager) {
        struct alertmanager_stats s = alertmanager_stats(r->rest->config.alertmanager);

        rest_metric(&text, "xgw_alert_posts_total", "counter",
                    "Times that an Alertmanager was told.");
        buf_printf(&text, "xgw_alert_posts_total %llu\n", (unsigned long long)s.posts);
        rest_metric(&text, "xgw_alert_post_failures_total", "counter",
                    "Times that one did not take it.");
        buf_printf(&text, "xgw_alert_post_failures_total %llu\n",
                   (unsigned long long)s.failures);
    }
    if (buf_failed(&text)) {
        rest_refuse(r, 503, "no_memory", NULL, "no memory for the answer");
    } else {
        rest_reply_text(r, 200, "text/plain; version=0.0.4; charset=utf-8", text.data,
                        text.len);
    }
    buf_fini(&text);
}
