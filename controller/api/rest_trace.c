/* Trace: what happens to a packet, as the entries say, and as the nodes do. */
#include "controller/api/rest_internal.h"

#include "controller/core/live.h"

#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

/* ---- hops ---- */

static json_t *hop_json(const struct trace_hop *hop)
{
    static const char *const kinds[] = { "tenant",  "route", "vm_nc",
                                         "forward", "drop",  "fallback" };
    json_t *json = json_pack("{s:s, s:i, s:s, s:s}", "kind", kinds[hop->kind], "vni",
                             (int)hop->vni, "cluster", hop->cluster, "note", hop->note);

    if (hop->kind == TRACE_FORWARD) {
        json_object_set_new(json, "outer_dst", rest_ip_json(&hop->outer_dst));
    } else if (hop->kind == TRACE_DROP) {
        json_object_set_new(json, "reason", json_string(hop->reason));
    } else if (hop->kind != TRACE_FALLBACK) {
        struct buf text = BUF_INIT;

        entry_print_json(&hop->entry, ENTRY_PUT, &text);
        json_object_set_new(json, "entry", json_loads(buf_cstr(&text), 0, NULL));
        buf_fini(&text);
    }
    return json;
}

static json_t *hops_json(const struct trace_hop *hops, uint32_t count)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(list, hop_json(&hops[i]));
    }
    return list;
}

/* ---- what is asked ---- */

/* Absent: `*ret` is of no family. */
static enum rc query_ip(const struct rest_request *r, const char *name, struct ip *ret,
                        struct err *err)
{
    const char *text = rest_query(r, name);
    struct err why = { 0 };

    *ret = (struct ip){ 0 };
    if (text && ip_parse(text, strlen(text), ret, &why) != RC_OK) {
        return err_field(err, RC_INVALID, name, "ip_syntax", "%s: %s", name, why.msg);
    }
    return RC_OK;
}

/* Absent: IP_NONE. */
static enum rc query_underlay(const struct rest_request *r, uint8_t *ret,
                              struct err *err)
{
    const char *text = rest_query(r, "underlay");

    *ret = IP_NONE;
    if (text && strcmp(text, "v4") != 0 && strcmp(text, "v6") != 0) {
        return err_field(err, RC_INVALID, "underlay", "family",
                         "underlay '%.16s': not v4 or v6", text);
    }
    if (text) {
        *ret = text[1] == '4' ? IP_V4 : IP_V6;
    }
    return RC_OK;
}

/* Fills in `to->trace`. */
static enum rc read_query(const struct rest_request *r, struct command *to,
                          struct err *err)
{
    struct ip *dst = &to->trace.dst;
    struct ip *src = &to->trace.src;
    uint32_t vni = 0;
    enum rc rc = rest_query_u32(r, "vni", VNI_MIN, VNI_MAX, &vni, err);

    to->trace.vni = vni;
    if (rc == RC_OK && (vni == 0 || !rest_query(r, "dst"))) {
        rc = err_field(err, RC_INVALID, vni == 0 ? "vni" : "dst", "required",
                       "trace needs vni and dst");
    }
    rc = rc == RC_OK ? query_ip(r, "dst", dst, err) : rc;
    rc = rc == RC_OK ? query_ip(r, "src", src, err) : rc;
    rc = rc == RC_OK ? query_underlay(r, &to->trace.underlay, err) : rc;
    if (rc == RC_OK && src->family != IP_NONE && src->family != dst->family) {
        rc = err_field(err, RC_INVALID, "src", "family_mismatch",
                       "src: not of the family of dst");
    }
    return rc;
}

void rest_get_trace(struct rest_request *r)
{
    struct trace_hop hops[TRACE_HOPS_MAX];
    struct command asked = { 0 };
    struct err err = { 0 };
    uint32_t count;

    if (read_query(r, &asked, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    count = core_trace(core_of(r), asked.trace.vni, &asked.trace.dst,
                       asked.trace.underlay, hops);
    rest_reply_json(r, 200,
                    json_pack("{s:I, s:o}", "revision",
                              (json_int_t)core_revision(core_of(r)), "hops",
                              hops_json(hops, count)));
}

/* ---- live ---- */

/* Below the hops that they should bring about. */
static void add_answers(const struct live_trace *t, json_t *hops)
{
    for (uint32_t h = 0; h < t->hop_count; h++) {
        if (t->hops[h].is_verdict) {
            json_object_set_new(json_array_get(hops, h), "nodes", json_array());
        }
    }
    for (uint32_t i = 0; i < t->answer_count; i++) {
        const struct live_answer *a = &t->answers[i];

        json_array_append_new(json_object_get(json_array_get(hops, a->hop), "nodes"),
                              json_pack("{s:s, s:s, s:s, s:s}", "node", a->node,
                                        "verdict", live_verdict_name(a->verdict),
                                        "expected", a->expected, "found", a->found));
    }
}

static void on_traced(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    const struct live_trace *t = reply->live;
    json_t *json;
    json_t *hops;

    if (reply->err.code != RC_OK) {
        rest_problem(r, &reply->err);
        return;
    }
    hops = hops_json(t->hops, t->hop_count);
    add_answers(t, hops);
    json = json_pack("{s:I, s:o, s:s}", "revision", (json_int_t)t->revision, "hops",
                     hops, "verdict", live_verdict_name(live_trace_verdict(t)));
    for (unsigned v = 0; v < LIVE_VERDICTS; v++) {
        json_object_set_new(json, live_verdict_name(v),
                            json_integer((json_int_t)t->count[v]));
    }
    rest_reply_json(r, 200, json);
}

void rest_live_trace(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_TRACE };
    struct err err = { 0 };

    if (read_query(r, &command, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    if (shell_command(r->rest->config.shell, &command, on_traced, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}
