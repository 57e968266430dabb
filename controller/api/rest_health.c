/* Alarms, water levels and their settings, history, forecasts. */
#include "controller/api/rest_internal.h"

#include "controller/health/forecast.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERCENT(bp) ((double)(bp) / 100.0)

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

static const struct health *health_of(const struct rest_request *r)
{
    return core_health(core_of(r));
}

/* ---- alarms ---- */

static json_t *seconds_or_null(uint64_t t)
{
    return t ? json_integer((json_int_t)t) : json_null();
}

static json_t *alarm_json(const struct alarm *a)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I}", "kind",
                  alarm_kind_name(a->kind), "subject", a->subject, "severity",
                  alarm_severity_name(a->severity), "state",
                  a->cleared_s ? "cleared"
                  : a->acked_s ? "acknowledged"
                               : "standing",
                  "text", a->text, "folded", a->parent != 0, "children",
                  (json_int_t)a->folded, "count", (json_int_t)a->count, "first_seen",
                  (json_int_t)a->first_s, "last_seen", (json_int_t)a->last_s);
    char id[24];

    snprintf(id, sizeof(id), "%" PRIu64, a->id);
    json_object_set_new(json, "id", json_string(id));
    json_object_set_new(json, "cleared_at", seconds_or_null(a->cleared_s));
    json_object_set_new(json, "acknowledged_at", seconds_or_null(a->acked_s));
    json_object_set_new(json, "acknowledged_by",
                        a->acked_s ? rest_text_json(a->acked_by) : json_null());
    if (a->parent) {
        snprintf(id, sizeof(id), "%" PRIu64, a->parent);
    }
    json_object_set_new(json, "parent", a->parent ? json_string(id) : json_null());
    json_object_set_new(json, "value", json_real(a->value));
    json_object_set_new(json, "threshold", json_real(a->threshold));
    return json;
}

/* A page goes on with the first id that is not below the token's. */
void rest_list_alarms(struct rest_request *r)
{
    const struct alarms *alarms = health_alarms_of(health_of(r));
    json_t *items;
    const struct alarm *a = NULL;
    char key[REST_PAGE_KEY_MAX + 1] = "";
    char token[REST_PAGE_TOKEN_SIZE];
    struct rest_page page;
    struct err err = { 0 };
    bool all = false;
    uint64_t from;
    uint32_t i = 0;
    json_t *json;

    if (rest_query_bool(r, "all", &all, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    if (!rest_page_read(r, 1, 20, &page)) {
        return;
    }
    memcpy(key, page.key, page.key_len);
    from = strtoull(key, NULL, 10);
    items = json_array();
    for (; (a = alarms_at(alarms, i)) != NULL && json_array_size(items) < page.size;
         i++) {
        if (a->id >= from && (all || a->cleared_s == 0)) {
            json_array_append_new(items, alarm_json(a));
        }
    }
    json = json_pack("{s:o}", "items", items);
    if (a) {
        snprintf(key, sizeof(key), "%" PRIu64, a->id);
        rest_page_token(key, strlen(key), token);
        json_object_set_new(json, "next_page_token", json_string(token));
    }
    rest_reply_json(r, 200, json);
}

/* The alarm of the path; null: answered. */
static const struct alarm *path_alarm(struct rest_request *r)
{
    const struct alarms *alarms = health_alarms_of(health_of(r));
    const struct alarm *a;
    struct err err = { 0 };
    char id[24];

    for (uint32_t i = 0; (a = alarms_at(alarms, i)) != NULL; i++) {
        snprintf(id, sizeof(id), "%" PRIu64, a->id);
        if (strcmp(id, r->params[0]) == 0) {
            return a;
        }
    }
    err_set(&err, RC_NOT_FOUND, "no alarm '%s'", r->params[0]);
    rest_problem(r, &err);
    return NULL;
}

void rest_get_alarm(struct rest_request *r)
{
    const struct alarm *a = path_alarm(r);

    if (a) {
        rest_reply_json(r, 200, alarm_json(a));
    }
}

static void on_acked(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    const struct alarm *a;

    if (reply->err.code != RC_OK) {
        rest_problem(r, &reply->err);
        return;
    }
    a = path_alarm(r);
    if (a) {
        rest_reply_json(r, 200, alarm_json(a));
    }
}

void rest_ack_alarm(struct rest_request *r)
{
    const struct alarm *a = path_alarm(r);
    struct command command = { .kind = COMMAND_ACK };
    struct err err = { 0 };

    if (!a) {
        return;
    }
    command.alarm_id = a->id;
    snprintf(command.who, sizeof(command.who), "%s", r->who);
    if (shell_command(r->rest->config.shell, &command, on_acked, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}

/* ---- settings of levels ---- */

json_t *rest_marks_json(const struct level_marks *m)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "sale", PERCENT(m->sale_bp), "safe",
                     PERCENT(m->safe_bp), "critical", PERCENT(m->critical_bp), "clear",
                     PERCENT(m->clear_bp));
}

static json_t *levels_json(const struct level_settings *s)
{
    json_t *json = json_object();

    for (unsigned kind = 1; kind < LEVEL_KINDS; kind++) {
        json_t *one = rest_marks_json(&s->of[kind].marks);

        json_object_set_new(one, "drop_rate", json_real(s->of[kind].drop_ppb / 1e9));
        json_object_set_new(json, cluster_kind_name(kind), one);
    }
    return json;
}

static enum rc read_number(json_t *json, const char *prefix, const char *key,
                           double scale, double most, uint32_t *io, struct err *err)
{
    json_t *value = json_object_get(json, key);
    double number = json_number_value(value);
    char field[64];

    if (!value) {
        return RC_OK;
    }
    snprintf(field, sizeof(field), "%s%s", prefix, key);
    if (!json_is_number(value)) {
        return err_field(err, RC_INVALID, field, "type", "%s: not a number", field);
    }
    if (number < 0 || number > most) {
        return err_field(err, RC_RANGE, field, "number_range", "%s: not from 0 to %g",
                         field, most);
    }
    *io = (uint32_t)lround(number * scale);
    return RC_OK;
}

/* What is absent stays as it was. */
enum rc rest_marks_parse(json_t *json, const char *prefix, struct level_marks *io,
                         struct err *err)
{
    const struct {
        const char *key;
        uint16_t *to;
    } fields[] = { { "sale", &io->sale_bp },
                   { "safe", &io->safe_bp },
                   { "critical", &io->critical_bp },
                   { "clear", &io->clear_bp } };

    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint32_t value = *fields[i].to;
        enum rc rc = read_number(json, prefix, fields[i].key, 100, 100, &value, err);

        if (rc != RC_OK) {
            return rc;
        }
        *fields[i].to = (uint16_t)value;
    }
    return RC_OK;
}

static enum rc kind_parse(json_t *json, const char *name, struct level_kind *io,
                          struct err *err)
{
    char prefix[32];
    const char *key;
    json_t *value;
    enum rc rc;

    snprintf(prefix, sizeof(prefix), "%s.", name);
    json_object_foreach(json, key, value)
    {
        if (strcmp(key, "sale") != 0 && strcmp(key, "safe") != 0 &&
            strcmp(key, "critical") != 0 && strcmp(key, "clear") != 0 &&
            strcmp(key, "drop_rate") != 0) {
            return err_field(err, RC_INVALID, key, "unknown_field",
                             "%s%s: no such field", prefix, key);
        }
    }
    rc = rest_marks_parse(json, prefix, &io->marks, err);
    return rc ? rc : read_number(json, prefix, "drop_rate", 1e9, 1, &io->drop_ppb, err);
}

/* What is absent is the default. */
static enum rc levels_parse(json_t *json, struct level_settings *ret, struct err *err)
{
    const char *key;
    json_t *value;
    enum rc rc = RC_OK;

    level_settings_default(ret);
    json_object_foreach(json, key, value)
    {
        int kind = cluster_kind_parse(key, strlen(key));

        if (strcmp(key, "revision") == 0 || json_is_null(value)) {
            continue;
        }
        if (kind < 0) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such kind",
                             key);
        }
        if (!json_is_object(value)) {
            return err_field(err, RC_INVALID, key, "type", "%s: not an object", key);
        }
        rc = rc ? rc : kind_parse(value, key, &ret->of[kind], err);
    }
    return rc;
}

/* Takes `json`. */
static void put_levels(struct rest_request *r, struct command *command, json_t *json)
{
    struct err err = { 0 };
    enum rc rc = levels_parse(json, &command->levels, &err);

    json_decref(json);
    command->kind = COMMAND_PUT_LEVELS;
    rest_put_parsed(r, command, rc, &err);
}

void rest_get_levels(struct rest_request *r)
{
    uint64_t revision = core_object_revision(core_of(r), "levels", "");
    json_t *json = levels_json(core_levels(core_of(r)));

    json_object_set_new(json, "revision", json_integer((json_int_t)revision));
    rest_set_etag(r, revision);
    rest_reply_json(r, 200, json);
}

void rest_put_levels(struct rest_request *r)
{
    rest_put(r, put_levels);
}

void rest_patch_levels(struct rest_request *r)
{
    rest_patch(r, levels_json(core_levels(core_of(r))),
               core_object_revision(core_of(r), "levels", ""), put_levels);
}

/* ---- levels as they are ---- */

static json_t *level_json(const struct level_subject *s, const struct level *l)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:I, s:I, s:I, s:I}", "subject", s->name,
                     "resource", l->resource, "level", water_name(l->water), "percent",
                     PERCENT(l->bp), "used", (json_int_t)l->used, "capacity",
                     (json_int_t)l->capacity, "since", (json_int_t)l->since_s, "seen",
                     (json_int_t)l->seen_s);
}

/* The highest level of a subject and its parts, and the fullest resource. */
void rest_add_levels(const struct rest_request *r, json_t *status, const char *kind,
                     const char *name)
{
    const struct levels *levels = health_levels(health_of(r));
    const struct level_subject *where = NULL;
    const struct level *l;
    char subject[SUBJECT_MAX + 1];
    char text[SUBJECT_MAX + RESOURCE_MAX + 16];
    unsigned highest = WATER_CLEAR;

    snprintf(subject, sizeof(subject), "%s/%s", kind, name);
    l = levels_fullest(levels, subject, &where, &highest);
    json_object_set_new(status, "level",
                        l ? json_string(water_name(highest)) : json_null());
    if (l) {
        const char *part = where->name + strlen(subject);

        snprintf(text, sizeof(text), "%s%s%s %.1f %%", part[0] ? part + 1 : "",
                 part[0] ? "/" : "", l->resource, PERCENT(l->bp));
    }
    json_object_set_new(status, "fullest", l ? json_string(text) : json_null());
}

void rest_get_usage(struct rest_request *r)
{
    const struct levels *levels = health_levels(health_of(r));
    const char *subject = rest_query(r, "subject");
    const struct level_subject *s;
    json_t *items = json_array();

    if (!subject || strchr(subject, '/') == NULL) {
        struct err err = { 0 };

        json_decref(items);
        err_field(&err, RC_INVALID, "subject", "required",
                  "subject: cluster/NAME, node/NAME or a part of one");
        rest_problem(r, &err);
        return;
    }
    for (uint32_t i = levels_search(levels, subject);
         (s = levels_at(levels, i)) != NULL &&
         strncmp(s->name, subject, strlen(subject)) == 0;
         i++) {
        for (uint32_t j = 0; subject_is_within(s->name, subject) && j < s->count; j++) {
            json_array_append_new(items, level_json(s, &s->levels[j]));
        }
    }
    rest_reply_json(r, 200, json_pack("{s:o}", "items", items));
}

/* ---- history ---- */

static bool add_point(void *arg, const struct history_point *p)
{
    json_t *points = arg;

    json_array_append_new(points, json_pack("[I, I, I, I]", (json_int_t)p->t_s,
                                            (json_int_t)p->min, (json_int_t)p->mean,
                                            (json_int_t)p->max));
    return true;
}

/* Absent: the finest that reaches back. */
static enum rc query_tier(const struct rest_request *r, uint32_t from, uint64_t now_s,
                          enum history_tier *ret, struct err *err)
{
    const char *text = rest_query(r, "resolution");

    *ret = history_tier_for(from, now_s);
    for (unsigned t = 0; text && t < HISTORY_TIERS; t++) {
        if (strcmp(text, history_tier_name(t)) == 0) {
            *ret = (enum history_tier)t;
            return RC_OK;
        }
    }
    return text ? err_field(err, RC_INVALID, "resolution", "resolution_known",
                            "resolution: not seconds, minutes or hours")
                : RC_OK;
}

void rest_get_history(struct rest_request *r)
{
    uint64_t now_s = shell_unix_ms() / 1000;
    const struct history *h = health_history(health_of(r));
    const char *subject = rest_query(r, "subject");
    const char *resource = rest_query(r, "resource");
    uint32_t from = (uint32_t)(now_s - 3600);
    uint32_t to = UINT32_MAX;
    struct err err = { 0 };
    enum history_tier tier = HISTORY_SECONDS;
    json_t *points;
    enum rc rc = RC_OK;

    if (!subject || !resource) {
        rc = err_field(&err, RC_INVALID, subject ? "resource" : "subject", "required",
                       "history needs subject and resource");
    }
    rc = rc ? rc : rest_query_u32(r, "from", 0, UINT32_MAX, &from, &err);
    rc = rc ? rc : rest_query_u32(r, "to", 0, UINT32_MAX, &to, &err);
    rc = rc ? rc : query_tier(r, from, now_s, &tier, &err);
    if (rc != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    points = json_array();
    if (h) {
        history_read(h, subject, resource, tier, from, to, add_point, points);
    }
    rest_reply_json(r, 200,
                    json_pack("{s:s, s:s, s:s, s:o}", "subject", subject, "resource",
                              resource, "resolution", history_tier_name(tier), "points",
                              points));
}

/* ---- forecast ---- */

static json_t *date_json(double day)
{
    char text[GROWTH_DATE_SIZE];

    if (!isfinite(day) || day > 2932896) { /* the year 9999 */
        return json_null();
    }
    growth_print_date(day, text);
    return json_string(text);
}

static json_t *forecast_json(const struct level *l, const struct level_marks *marks,
                             const struct forecast *f)
{
    static const char *const whens[] = {
        [GROWTH_NEVER] = "never", [GROWTH_NOW] = "now", [GROWTH_LATER] = "later"
    };
    json_t *json = json_pack(
        "{s:s, s:f, s:f, s:f, s:s, s:f, s:I}", "resource", l->resource, "percent",
        PERCENT(l->bp), "mark", PERCENT(marks->safe_bp), "per_day_percent",
        f->line.per_day * 100 / (double)l->capacity, "when", whens[f->when], "r2",
        f->line.r2, "points", (json_int_t)f->line.points);

    json_object_set_new(json, "date",
                        f->when == GROWTH_NEVER ? json_null() : date_json(f->day));
    json_object_set_new(json, "earliest",
                        f->has_range ? date_json(f->earliest) : json_null());
    json_object_set_new(json, "latest",
                        f->has_range ? date_json(f->latest) : json_null());
    return json;
}

/* When each resource of a cluster reaches `safe`, of those with enough of a history. */
void rest_get_forecast(struct rest_request *r)
{
    const struct cluster *c = core_cluster_find(core_of(r), r->params[0]);
    const struct history *h = health_history(health_of(r));
    struct level_marks marks;
    const struct level_subject *s;
    char subject[SUBJECT_MAX + 1];
    json_t *items;

    if (!c) {
        struct err err = { 0 };

        err_set(&err, RC_NOT_FOUND, "no cluster '%s'", r->params[0]);
        rest_problem(r, &err);
        return;
    }
    marks = health_marks(health_of(r), c->kind);
    snprintf(subject, sizeof(subject), "cluster/%s", c->name);
    s = levels_find(health_levels(health_of(r)), subject);
    items = json_array();
    for (uint32_t i = 0; h && s && i < s->count; i++) {
        const struct level *l = &s->levels[i];
        double mark = (double)l->capacity * marks.safe_bp / LEVEL_FULL_BP;
        struct forecast f;

        if (forecast_series(h, s->name, l->resource, 0, mark, 0, &f)) {
            json_array_append_new(items, forecast_json(l, &marks, &f));
        }
    }
    rest_reply_json(r, 200, json_pack("{s:o}", "items", items));
}
