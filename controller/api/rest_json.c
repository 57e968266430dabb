/* Objects as JSON, both ways.  Reading is strict: unknown keys and wrong types are
 * errors that name the field; meaning is checked by proto/model/object.h. */
#include "controller/api/rest_internal.h"

#include "proto/model/mac.h"

#include <string.h>

/* Reads the members of one object; the first failure sticks. */
struct members {
    json_t *json;
    const char *path; /* "uplinks[1]." in front of the fields' names, or "" */
    size_t seen;      /* members that were there */
    struct err *err;
    enum rc rc;
};

static void fail(struct members *m, const char *key, const char *rule, const char *what)
{
    char field[64];

    snprintf(field, sizeof(field), "%s%s", m->path, key);
    if (m->rc == RC_OK) {
        m->rc = err_field(m->err, RC_INVALID, field, rule, "%s: %s", field, what);
    }
}

/* Null when absent; null and a failure when it is of another type. */
static json_t *member(struct members *m, const char *key, json_type type,
                      const char *what)
{
    json_t *value = json_object_get(m->json, key);

    if (!value) {
        return NULL;
    }
    m->seen++;
    if (json_typeof(value) == JSON_NULL) {
        return NULL;
    }
    if (json_typeof(value) != type) {
        fail(m, key, "type", what);
        return NULL;
    }
    return value;
}

static void read_text(struct members *m, const char *key, char *to, size_t size)
{
    json_t *value = member(m, key, JSON_STRING, "not a string");

    if (!value) {
        return;
    }
    if (json_string_length(value) >= size ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        fail(m, key, "name_length", "too long");
        return;
    }
    strcpy(to, json_string_value(value));
}

static void read_bool(struct members *m, const char *key, bool *to)
{
    json_t *value = json_object_get(m->json, key);

    if (!value) {
        return;
    }
    m->seen++;
    if (!json_is_boolean(value)) {
        fail(m, key, "type", "not true or false");
        return;
    }
    *to = json_is_true(value);
}

static void read_ip(struct members *m, const char *key, struct ip *to)
{
    json_t *value = member(m, key, JSON_STRING, "not a string");
    struct err why = { 0 };

    if (value && ip_parse(json_string_value(value), json_string_length(value), to,
                          &why) != RC_OK) {
        fail(m, key, "ip_syntax", why.msg);
    }
}

/* Absent: `*to` stays.  What is out of range for the type is not for the caller. */
static void read_whole(struct members *m, const char *key, uint64_t max, uint64_t *to)
{
    json_t *value = member(m, key, JSON_INTEGER, "not a whole number");

    if (!value) {
        return;
    }
    if (json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > max) {
        fail(m, key, "number_range", "too large, or negative");
        return;
    }
    *to = (uint64_t)json_integer_value(value);
}

/* A name out of a list: its number by `parse`. */
static void read_kind(struct members *m, const char *key, const char *rule,
                      const char *what, int (*parse)(const char *, size_t), uint8_t *to)
{
    json_t *value = member(m, key, JSON_STRING, "not a string");
    int number;

    if (!value) {
        return;
    }
    number = parse(json_string_value(value), json_string_length(value));
    if (number < 0) {
        fail(m, key, rule, what);
        return;
    }
    *to = (uint8_t)number;
}

static void read_side(struct members *m, const char *key, char *to)
{
    json_t *value = member(m, key, JSON_STRING, "not a string");

    if (value && json_string_length(value) != 1) {
        fail(m, key, "side", "not a or b");
    } else if (value) {
        *to = json_string_value(value)[0];
    }
}

/* A name stands in the path; in the body it may stand again, the same. */
static void read_name(struct members *m, const char *name, char *to, size_t size)
{
    to[0] = '\0';
    read_text(m, "name", to, size);
    if (name && strlen(name) >= size) {
        fail(m, "name", "name_length", "too long");
    } else if (name && to[0] != '\0' && strcmp(to, name) != 0) {
        fail(m, "name", "name_differs", "not the name in the path");
    } else if (name) {
        strcpy(to, name);
    }
}

/* Answers carry what readers must not be made to take out again. */
static void skip(struct members *m, const char *key)
{
    m->seen += json_object_get(m->json, key) != NULL;
}

/* Whoever is left over was not asked for. */
static enum rc finish(struct members *m, const char *const known[])
{
    const char *key;
    json_t *value;

    if (m->rc != RC_OK || m->seen == json_object_size(m->json)) {
        return m->rc;
    }
    json_object_foreach(m->json, key, value)
    {
        bool is_known = false;

        for (unsigned i = 0; known[i]; i++) {
            is_known |= strcmp(known[i], key) == 0;
        }
        if (!is_known) {
            fail(m, key, "unknown_field", "no such field");
            break;
        }
    }
    return m->rc;
}

enum rc rest_region_parse(json_t *json, struct region *ret, struct err *err)
{
    static const char *const known[] = {
        "name",     "icmp_source_v4", "icmp_source_v6", "underlay_sources",
        "revision", "ecmp_limit",     "steering",       "admission_hold_ms",
        NULL
    };
    struct members m = { .json = json, .path = "", .err = err };
    uint64_t ecmp_limit = 0; /* the default */
    uint64_t hold_ms = 0;    /* the same */
    json_t *sources;
    json_t *item;
    size_t i;

    memset(ret, 0, sizeof(*ret));
    read_name(&m, NULL, ret->name, sizeof(ret->name));
    read_ip(&m, "icmp_source_v4", &ret->icmp_source_v4);
    read_ip(&m, "icmp_source_v6", &ret->icmp_source_v6);
    read_kind(&m, "steering", "steering_known", "not a form of steering: vip or lb",
              steering_parse, &ret->steering);
    read_whole(&m, "ecmp_limit", ECMP_LIMIT_MAX, &ecmp_limit);
    ret->ecmp_limit = (uint8_t)ecmp_limit;
    read_whole(&m, "admission_hold_ms", ADMISSION_HOLD_MS_MAX, &hold_ms);
    ret->admission_hold_ms = (uint32_t)hold_ms;
    skip(&m, "revision");
    sources = member(&m, "underlay_sources", JSON_ARRAY, "not an array");
    if (sources && json_array_size(sources) > UNDERLAY_SOURCES_MAX) {
        fail(&m, "underlay_sources", "list_length", "too many");
        sources = NULL;
    }
    json_array_foreach(sources, i, item)
    {
        char key[40];
        struct err why = { 0 };
        struct prefix *to = &ret->underlay_sources[ret->underlay_source_count++];

        snprintf(key, sizeof(key), "underlay_sources[%zu]", i);
        if (!json_is_string(item)) {
            fail(&m, key, "type", "not a string");
        } else if (prefix_parse(json_string_value(item), json_string_length(item), to,
                                &why) != RC_OK) {
            fail(&m, key, why.rule[0] ? why.rule : "prefix_syntax", why.msg);
        }
    }
    if (finish(&m, known) != RC_OK) {
        return m.rc;
    }
    region_sort(ret);
    return region_check(ret, err);
}

/* The members of `json` under `key`, as an object whose fields' names begin with
 * `path`; false where there is none. */
static bool enter(struct members *m, const char *key, const char *path,
                  struct members *ret)
{
    json_t *json = member(m, key, JSON_OBJECT, "not an object");

    *ret = (struct members){ .json = json, .path = path, .err = m->err, .rc = m->rc };
    return json != NULL;
}

static void leave(struct members *m, struct members *inner, const char *const known[])
{
    m->rc = finish(inner, known);
}

/* "node" or "tenant" of a fallback meter: {"miss":{rate_bps,burst_bytes},"service":…}.
 * What is absent stays; a rate alone has a burst of 10 ms. */
static void read_policers(struct members *m, const char *key, struct policer *to)
{
    static const char *const classes[] = { "miss", "service", NULL };
    static const char *const known[] = { "rate_bps", "burst_bytes", NULL };
    struct members list;
    char path[40];

    snprintf(path, sizeof(path), "%s%s.", m->path, key);
    if (!enter(m, key, path, &list)) {
        return;
    }
    for (unsigned i = 0; i < FALLBACK_CLASSES; i++) {
        char inner_path[64];
        struct members one;
        uint64_t burst = 0;

        snprintf(inner_path, sizeof(inner_path), "%s%s.", path, classes[i]);
        if (enter(&list, classes[i], inner_path, &one)) {
            read_whole(&one, "rate_bps", METER_BPS_MAX, &to[i].rate_bps);
            burst = to[i].rate_bps / 800;
            burst = burst < METER_BURST_MIN ? METER_BURST_MIN : burst;
            burst = burst > METER_BURST_MAX ? METER_BURST_MAX : burst;
            read_whole(&one, "burst_bytes", UINT32_MAX, &burst);
            to[i].burst_bytes = (uint32_t)burst;
            leave(&list, &one, known);
        }
    }
    leave(m, &list, classes);
}

static void read_fallback_meter(struct members *m, struct fallback_meter *to)
{
    static const char *const known[] = { "node", "tenant", NULL };
    struct members inner;

    if (enter(m, "fallback_meter", "fallback_meter.", &inner)) {
        read_policers(&inner, "node", to->node);
        read_policers(&inner, "tenant", to->tenant);
        leave(m, &inner, known);
    }
}

enum rc rest_cluster_parse(json_t *json, const char *name, struct cluster *ret,
                           struct err *err)
{
    static const char *const known[] = { "name",     "kind",           "active_side",
                                         "vip_v4",   "vip_v6",         "udp6_zero_csum",
                                         "backing",  "fallback_meter", "status",
                                         "revision", "state",          "profile",
                                         NULL };
    struct members m = { .json = json, .path = "", .err = err };

    memset(ret, 0, sizeof(*ret));
    ret->active_side = 'a';
    ret->kind = CLUSTER_X86;
    read_name(&m, name, ret->name, sizeof(ret->name));
    read_kind(&m, "kind", "cluster_kind", "not a kind of cluster: x86, xgw-h or lb",
              cluster_kind_parse, &ret->kind);
    if (ret->kind == CLUSTER_XGW_H) {
        fallback_meter_default(&ret->fallback_meter);
    }
    read_kind(&m, "profile", "profile_known", "not a size of tables: tofino or bench",
              table_profile_parse, &ret->profile);
    read_text(&m, "backing", ret->backing, sizeof(ret->backing));
    read_fallback_meter(&m, &ret->fallback_meter);
    read_kind(&m, "state", "cluster_state", "not a state of a cluster",
              cluster_state_parse, &ret->state);
    read_side(&m, "active_side", &ret->active_side);
    read_ip(&m, "vip_v4", &ret->vip_v4);
    read_ip(&m, "vip_v6", &ret->vip_v6);
    read_bool(&m, "udp6_zero_csum", &ret->udp6_zero_csum);
    skip(&m, "status");
    skip(&m, "revision");
    return finish(&m, known) == RC_OK ? cluster_check(ret, err) : m.rc;
}

static enum rc uplink_parse(json_t *json, size_t index, struct uplink *ret,
                            struct err *err)
{
    static const char *const known[] = { "port",        "addr_v4",     "addr_v6",
                                         "next_hop_v4", "next_hop_v6", "mac",
                                         "mtu",         NULL };
    char path[32];
    struct members m = { .json = json, .path = path, .err = err };
    char mac[18] = "";
    json_t *mtu;

    snprintf(path, sizeof(path), "uplinks[%zu].", index);
    if (!json_is_object(json)) {
        fail(&m, "", "type", "not an object");
        return m.rc;
    }
    ret->mtu = UPLINK_MTU_DEFAULT;
    read_text(&m, "port", ret->port, sizeof(ret->port));
    read_ip(&m, "addr_v4", &ret->addr_v4);
    read_ip(&m, "addr_v6", &ret->addr_v6);
    read_ip(&m, "next_hop_v4", &ret->next_hop_v4);
    read_ip(&m, "next_hop_v6", &ret->next_hop_v6);
    read_text(&m, "mac", mac, sizeof(mac));
    ret->has_mac = mac[0] != '\0';
    if (ret->has_mac && mac_parse(mac, strlen(mac), "mac", ret->mac, NULL) != RC_OK) {
        fail(&m, "mac", "mac_syntax", "not six bytes in hexadecimal");
    }
    mtu = member(&m, "mtu", JSON_INTEGER, "not a number");
    if (mtu && (json_integer_value(mtu) < UPLINK_MTU_MIN ||
                json_integer_value(mtu) > UPLINK_MTU_MAX)) {
        fail(&m, "mtu", "mtu_range", "not 1280 to 9216");
    } else if (mtu) {
        ret->mtu = (uint16_t)json_integer_value(mtu);
    }
    return finish(&m, known);
}

enum rc rest_node_parse(json_t *json, const char *name, struct node *ret,
                        struct err *err)
{
    static const char *const known[] = { "name",        "cluster",     "kind",
                                         "side",        "vtep_v4",     "vtep_v6",
                                         "fallback_v4", "fallback_v6", "uplinks",
                                         "status",      "revision",    NULL };
    struct members m = { .json = json, .path = "", .err = err };
    json_t *uplinks;
    json_t *item;
    size_t i;

    memset(ret, 0, sizeof(*ret));
    ret->side = 'a';
    ret->kind = DEVICE_X86;
    read_name(&m, name, ret->name, sizeof(ret->name));
    read_text(&m, "cluster", ret->cluster, sizeof(ret->cluster));
    read_kind(&m, "kind", "node_kind",
              "not a kind of node: x86, soft-h, tofino, bmv2 or lb", device_kind_parse,
              &ret->kind);
    read_side(&m, "side", &ret->side);
    read_ip(&m, "vtep_v4", &ret->vtep_v4);
    read_ip(&m, "vtep_v6", &ret->vtep_v6);
    read_ip(&m, "fallback_v4", &ret->fallback_v4);
    read_ip(&m, "fallback_v6", &ret->fallback_v6);
    skip(&m, "status");
    skip(&m, "revision");
    uplinks = member(&m, "uplinks", JSON_ARRAY, "not an array");
    if (uplinks && json_array_size(uplinks) > UPLINKS_MAX) {
        fail(&m, "uplinks", "list_length", "too many");
        uplinks = NULL;
    }
    json_array_foreach(uplinks, i, item)
    {
        enum rc rc = uplink_parse(item, i, &ret->uplinks[ret->uplink_count++], err);

        m.rc = m.rc == RC_OK ? rc : m.rc;
    }
    return finish(&m, known) == RC_OK ? node_check(ret, err) : m.rc;
}

json_t *rest_ip_json(const struct ip *ip)
{
    char text[IP_TEXT_MAX];

    if (ip->family == IP_NONE) {
        return json_null();
    }
    ip_print(ip, text);
    return json_string(text);
}

static void add_ip(json_t *json, const char *key, const struct ip *ip)
{
    if (ip->family != IP_NONE) {
        json_object_set_new(json, key, rest_ip_json(ip));
    }
}

json_t *rest_region_json(const struct region *r)
{
    json_t *json = json_object();
    json_t *sources = json_array();

    json_object_set_new(json, "name", json_string(r->name));
    json_object_set_new(json, "steering", json_string(steering_name(r->steering)));
    add_ip(json, "icmp_source_v4", &r->icmp_source_v4);
    add_ip(json, "icmp_source_v6", &r->icmp_source_v6);
    if (r->ecmp_limit) {
        json_object_set_new(json, "ecmp_limit", json_integer(r->ecmp_limit));
    }
    if (r->admission_hold_ms) {
        json_object_set_new(json, "admission_hold_ms",
                            json_integer(r->admission_hold_ms));
    }
    for (unsigned i = 0; i < r->underlay_source_count; i++) {
        char text[PREFIX_TEXT_MAX];

        prefix_print(&r->underlay_sources[i], text);
        json_array_append_new(sources, json_string(text));
    }
    json_object_set_new(json, "underlay_sources", sources);
    return json;
}

static json_t *policers_json(const struct policer *p)
{
    json_t *json = json_object();

    for (unsigned i = 0; i < FALLBACK_CLASSES; i++) {
        json_object_set_new(json, fallback_class_name(i),
                            json_pack("{s:I, s:I}", "rate_bps",
                                      (json_int_t)p[i].rate_bps, "burst_bytes",
                                      (json_int_t)p[i].burst_bytes));
    }
    return json;
}

json_t *rest_cluster_json(const struct cluster *c)
{
    json_t *json = json_object();

    json_object_set_new(json, "name", json_string(c->name));
    json_object_set_new(json, "kind", json_string(cluster_kind_name(c->kind)));
    json_object_set_new(json, "state", json_string(cluster_state_name(c->state)));
    json_object_set_new(json, "active_side", json_stringn(&c->active_side, 1));
    add_ip(json, "vip_v4", &c->vip_v4);
    add_ip(json, "vip_v6", &c->vip_v6);
    json_object_set_new(json, "udp6_zero_csum", json_boolean(c->udp6_zero_csum));
    if (c->kind == CLUSTER_XGW_H) {
        json_object_set_new(json, "profile",
                            json_string(table_profile_name(c->profile)));
        json_object_set_new(json, "backing", json_string(c->backing));
        json_object_set_new(json, "fallback_meter",
                            json_pack("{s:o, s:o}", "node",
                                      policers_json(c->fallback_meter.node), "tenant",
                                      policers_json(c->fallback_meter.tenant)));
    }
    return json;
}

static json_t *uplink_json(const struct uplink *u)
{
    json_t *json = json_object();

    json_object_set_new(json, "port", json_string(u->port));
    add_ip(json, "addr_v4", &u->addr_v4);
    add_ip(json, "next_hop_v4", &u->next_hop_v4);
    add_ip(json, "addr_v6", &u->addr_v6);
    add_ip(json, "next_hop_v6", &u->next_hop_v6);
    if (u->has_mac) {
        char text[MAC_TEXT_MAX];

        mac_print(u->mac, text);
        json_object_set_new(json, "mac", json_string(text));
    }
    json_object_set_new(json, "mtu", json_integer(u->mtu));
    return json;
}

json_t *rest_node_json(const struct node *n)
{
    json_t *json = json_object();
    json_t *uplinks = json_array();

    json_object_set_new(json, "name", json_string(n->name));
    json_object_set_new(json, "cluster", json_string(n->cluster));
    json_object_set_new(json, "kind", json_string(device_kind_name(n->kind)));
    json_object_set_new(json, "side", json_stringn(&n->side, 1));
    add_ip(json, "vtep_v4", &n->vtep_v4);
    add_ip(json, "vtep_v6", &n->vtep_v6);
    add_ip(json, "fallback_v4", &n->fallback_v4);
    add_ip(json, "fallback_v6", &n->fallback_v6);
    for (unsigned i = 0; i < n->uplink_count; i++) {
        json_array_append_new(uplinks, uplink_json(&n->uplinks[i]));
    }
    json_object_set_new(json, "uplinks", uplinks);
    return json;
}
