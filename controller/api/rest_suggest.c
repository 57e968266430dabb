/* The advice on the policy: asked of the core, which answers when it is made. */
#include "controller/api/rest_internal.h"

#include "controller/core/suggest.h"
#include "controller/core/traffic.h"

#define SECOND_MS 1000
#define SECONDS   5 /* between both looks at the traffic */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Null: not measured. */
static json_t *traffic_json(const struct service_figures *f)
{
    double total = (double)f->total_bps;

    if (f->weight == WEIGHT_UNKNOWN) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:f, s:f}", "least_bps", number(f->least_bps),
                     "most_bps", number(f->most_bps), "least_share",
                     (double)f->least_bps / total, "most_share",
                     (double)f->most_bps / total);
}

static json_t *advice_json(const struct service_advice *a, uint64_t watch_ms)
{
    static const char *const weights[] = { "unknown", "heavy", "light", "either" };

    const struct service_figures *f = &a->figures;
    json_t *age = f->entries > 0 ? number(f->age_ms / SECOND_MS) : json_null();
    json_t *rate = f->window_ms < watch_ms
                       ? json_null() /* a look too short to speak of hours */
                       : json_real(suggest_changes_per_hour(f));
    json_t *quiet = f->has_changed ? number(f->quiet_ms / SECOND_MS) : json_null();

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "service",
        f->service, "place", policy_place_name(f->place), "suggested",
        policy_place_name(a->place), "reason", a->reason, "weight", weights[f->weight],
        "traffic", traffic_json(f), "entries", number(f->entries), "changes",
        number(f->changes), "changes_per_hour", rate, "window_seconds",
        number(f->window_ms / SECOND_MS), "age_seconds", age, "age_is_least",
        f->is_older, "last_change_seconds", quiet);
}

static json_t *size_json(const struct resident_size *s)
{
    return json_pack("{s:o, s:o}", table_name(TABLE_VXLAN_ROUTE), number(s->routes),
                     table_name(TABLE_VM_NC), number(s->vms));
}

/* Null: it was not to be measured. */
static json_t *measured_json(const struct suggest_traffic *t)
{
    json_t *unmeasured;

    if (t->seconds == 0) {
        return json_null();
    }
    unmeasured = json_array();
    for (uint32_t i = 0; i < t->unmeasured_count; i++) {
        json_array_append_new(unmeasured,
                              json_pack("{s:s, s:s}", "node", t->unmeasured[i].name,
                                        "why", t->unmeasured[i].why));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "seconds", number(t->seconds),
                     "total_bps", number(t->total_bps), "uncounted_bps",
                     number(t->uncounted_bps), "nodes", number(t->measured),
                     "unmeasured", unmeasured);
}

static void on_made(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    const struct suggestion *s;
    json_t *services;

    if (reply->err.code != RC_OK) {
        rest_problem(r, &reply->err);
        return;
    }
    s = core_suggestion(shell_core(r->rest->config.shell));
    services = json_array();
    for (uint32_t i = 0; i < s->count; i++) {
        json_array_append_new(services,
                              advice_json(&s->services[i], s->limits.watch_ms));
    }
    rest_reply_json(
        r, 200,
        json_pack("{s:o, s:o, s:{s:o, s:o}, s:o, s:o}", "services", services, "traffic",
                  measured_json(&s->traffic), "resident", "now", size_json(&s->now),
                  "suggested", size_json(&s->then), "watched_seconds",
                  number(s->watched_ms / SECOND_MS), "revision", number(s->revision)));
}

void rest_get_suggestion(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_SUGGEST };
    struct err err = { 0 };
    uint32_t seconds = SECONDS;

    if (rest_query_u32(r, "seconds", 0, TRAFFIC_SECONDS_MAX, &seconds, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    command.suggest.seconds = seconds;
    if (shell_command(r->rest->config.shell, &command, on_made, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}
