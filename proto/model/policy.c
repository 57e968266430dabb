/* policy: which services XGW-H holds. */
#include <stdio.h>
#include <string.h>

#include "proto/model/name.h"
#include "proto/model/object.h"

#define NAMED "service:"

static const char *const places[] = {
    [POLICY_XGW_X86] = "xgw-x86",
    [POLICY_XGW_H] = "xgw-h",
};

enum { PLACE_COUNT = sizeof(places) / sizeof(places[0]) };

const char *policy_place_name(unsigned place)
{
    return place < PLACE_COUNT && places[place] ? places[place] : "unknown";
}

int policy_place_parse(const char *name, size_t len)
{
    for (int i = POLICY_XGW_X86; i < PLACE_COUNT; i++) {
        if (strlen(places[i]) == len && memcmp(places[i], name, len) == 0) {
            return i;
        }
    }
    return -1;
}

/* The scopes that people set; a derived peer is still a peer. */
static bool is_settable(int scope)
{
    return scope >= SCOPE_LOCAL && scope <= SCOPE_SERVICE;
}

static bool is_named(const char *service)
{
    return strncmp(service, NAMED, strlen(NAMED)) == 0;
}

static enum rc check_service(const char *service, const char *field, struct err *err)
{
    enum rc rc;

    if (is_settable(scope_parse(service, strnlen(service, POLICY_SERVICE_MAX)))) {
        return RC_OK;
    }
    if (is_named(service)) {
        rc = name_check(service + strlen(NAMED), SERVICE_NAME_MAX, field, err);
        return rc;
    }
    return err_field(err, RC_INVALID, field, "service_known",
                     "%s: not one of local, peer, idc, region, internet, service, "
                     "service:NAME",
                     field);
}

/* Index of the first rule whose service is not below `service`. */
static unsigned rule_search(const struct policy *p, const char *service, bool *found)
{
    unsigned low = 0;
    unsigned high = p->rule_count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (strcmp(p->rules[mid].service, service) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    *found = low < p->rule_count && strcmp(p->rules[low].service, service) == 0;
    return low;
}

/* What holds without a rule of its own. */
static enum policy_place default_place(const struct policy *p, const char *service)
{
    bool found;
    unsigned at;

    if (!is_named(service)) {
        return strcmp(service, "internet") == 0 ? POLICY_XGW_X86 : POLICY_XGW_H;
    }
    at = rule_search(p, "service", &found);
    return found ? (enum policy_place)p->rules[at].place : POLICY_XGW_H;
}

enum policy_place policy_of_service(const struct policy *p, const char *service)
{
    bool found;
    unsigned at = rule_search(p, service, &found);

    return found ? (enum policy_place)p->rules[at].place : default_place(p, service);
}

void policy_service_name(const struct route_action *a, char ret[POLICY_SERVICE_MAX + 1])
{
    if (a->scope == SCOPE_SERVICE) {
        snprintf(ret, POLICY_SERVICE_MAX + 1, NAMED "%s", a->service);
    } else {
        snprintf(ret, POLICY_SERVICE_MAX + 1, "%s", scope_name(a->scope));
    }
}

enum policy_place policy_of_route(const struct policy *p, const struct route_action *a)
{
    char service[POLICY_SERVICE_MAX + 1];

    policy_service_name(a, service);
    return policy_of_service(p, service);
}

static enum rc check_rule(const struct policy *p, unsigned i, struct err *err)
{
    char field[32];
    enum rc rc;

    snprintf(field, sizeof(field), "rules[%u].service", i);
    rc = check_service(p->rules[i].service, field, err);
    if (rc == RC_OK && i > 0 &&
        strcmp(p->rules[i - 1].service, p->rules[i].service) >= 0) {
        return err_field(err, RC_INVALID, field, "ascending",
                         "%s: not above the one before it", field);
    }
    if (rc == RC_OK && strcmp(policy_place_name(p->rules[i].place), "unknown") == 0) {
        snprintf(field, sizeof(field), "rules[%u].place", i);
        return err_field(err, RC_INVALID, field, "place_known",
                         "%s: neither xgw-h nor xgw-x86", field);
    }
    return rc;
}

enum rc policy_check(const struct policy *p, struct err *err)
{
    enum rc rc = RC_OK;

    if (p->rule_count > POLICY_RULES_MAX) {
        return err_field(err, RC_RANGE, "rules", "list_length", "rules: more than %d",
                         POLICY_RULES_MAX);
    }
    for (unsigned i = 0; rc == RC_OK && i < p->rule_count; i++) {
        rc = check_rule(p, i, err);
    }
    return rc;
}

static void remove_rule(struct policy *p, unsigned at)
{
    p->rule_count--;
    memmove(&p->rules[at], &p->rules[at + 1],
            (p->rule_count - at) * sizeof(p->rules[0]));
    p->rules[p->rule_count] = (struct policy_rule){ .place = 0 };
}

enum rc policy_set(struct policy *p, const char *service, enum policy_place place,
                   struct err *err)
{
    bool found;
    unsigned at = rule_search(p, service, &found);
    enum rc rc = check_service(service, "service", err);

    if (rc != RC_OK) {
        return rc;
    }
    if (strcmp(policy_place_name(place), "unknown") == 0) {
        return err_field(err, RC_INVALID, "place", "place_known",
                         "place: neither xgw-h nor xgw-x86");
    }
    if (place == default_place(p, service)) {
        if (found) {
            remove_rule(p, at);
        }
        return RC_OK;
    }
    if (!found && p->rule_count == POLICY_RULES_MAX) {
        return err_field(err, RC_FULL, "service", "list_length",
                         "policy: holds %d rules already", POLICY_RULES_MAX);
    }
    if (!found) {
        memmove(&p->rules[at + 1], &p->rules[at],
                (p->rule_count - at) * sizeof(p->rules[0]));
        p->rules[at] = (struct policy_rule){ .place = 0 };
        memcpy(p->rules[at].service, service, strlen(service));
        p->rule_count++;
    }
    p->rules[at].place = (uint8_t)place;
    return RC_OK;
}
