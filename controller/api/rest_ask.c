/* What a request says: query, headers, body. */
#include "controller/api/rest_internal.h"

#include "proto/model/name.h"

#include <string.h>
#include <sys/queue.h>

#define QUERY_VALUE_MAX 256

/* Whether `name` is one of the words of `list`. */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (list && *list) {
        size_t word = strcspn(list, " ");

        if (word == len && strncmp(list, name, len) == 0) {
            return true;
        }
        list += word;
        list += strspn(list, " ");
    }
    return false;
}

enum rc rest_query_check(const struct rest_request *r, struct err *err)
{
    const struct evkeyval *p;
    const struct evkeyval *q;

    for (p = r->query.tqh_first; p; p = p->next.tqe_next) {
        if (!is_listed(r->route->query, p->key)) {
            return err_field(err, RC_INVALID, p->key, "unknown_parameter",
                             "%s: no such parameter here", p->key);
        }
        for (q = p->next.tqe_next; q; q = q->next.tqe_next) {
            if (strcmp(p->key, q->key) == 0) {
                return err_field(err, RC_INVALID, p->key, "repeated_parameter",
                                 "%s: given twice", p->key);
            }
        }
        if (display_name_check(p->value, QUERY_VALUE_MAX, p->key, err) != RC_OK) {
            return err->code;
        }
    }
    return RC_OK;
}

const char *rest_query(const struct rest_request *r, const char *name)
{
    return evhttp_find_header(&r->query, name);
}

const char *rest_header(const struct rest_request *r, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(r->http), name);
}

enum rc rest_query_bool(const struct rest_request *r, const char *name, bool *ret,
                        struct err *err)
{
    const char *text = rest_query(r, name);

    *ret = text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    if (text && !*ret && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        return err_field(err, RC_INVALID, name, "boolean", "%s: not true or false",
                         name);
    }
    return RC_OK;
}

/* Decimal digits to at most `max`; false: anything else. */
static bool read_number(const char *text, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;

    for (const char *p = text; *p; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret = value;
    return *text != '\0';
}

enum rc rest_query_u32(const struct rest_request *r, const char *name, uint32_t min,
                       uint32_t max, uint32_t *io, struct err *err)
{
    const char *text = rest_query(r, name);
    uint64_t value;

    if (!text) {
        return RC_OK;
    }
    if (!read_number(text, max, &value) || value < min) {
        return err_field(err, RC_RANGE, name, "number_range",
                         "%s: not a number from %u to %u", name, min, max);
    }
    *io = (uint32_t)value;
    return RC_OK;
}

bool rest_path_vni(struct rest_request *r, uint32_t *ret)
{
    struct err err = { 0 };
    uint64_t vni = 0;

    if (!read_number(r->params[0], VNI_MAX, &vni) || vni < VNI_MIN) {
        err_field(&err, RC_RANGE, "vni", "vni_range", "vni '%s': not 1 to 16777215",
                  r->params[0]);
        rest_problem(r, &err);
        return false;
    }
    *ret = (uint32_t)vni;
    return true;
}

/* ---- pages of lists ---- */

static bool read_hex(const char *text, uint8_t *to, size_t size, uint8_t *ret_len)
{
    static const char digits[] = "0123456789abcdef";
    size_t len = strlen(text);

    if (len % 2 != 0 || len / 2 > size) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        const char *at = strchr(digits, text[i]);
        unsigned value = at ? (unsigned)(at - digits) : 0;

        if (!at) {
            return false;
        }
        to[i / 2] = (uint8_t)(i % 2 ? to[i / 2] | value : value << 4);
    }
    *ret_len = (uint8_t)(len / 2);
    return true;
}

bool rest_page_read(struct rest_request *r, uint8_t least, uint8_t most,
                    struct rest_page *ret)
{
    const char *token = rest_query(r, "pageToken");
    struct err err = { 0 };

    *ret = (struct rest_page){ .size = REST_PAGE_SIZE };
    rest_query_u32(r, "pageSize", 1, REST_PAGE_MAX, &ret->size, &err);
    if (err.code == RC_OK && token &&
        (!read_hex(token, ret->key, sizeof(ret->key), &ret->key_len) ||
         ret->key_len < least || ret->key_len > most)) {
        err_field(&err, RC_INVALID, "pageToken", "page_token",
                  "pageToken: not one that this list gave");
    }
    if (err.code != RC_OK) {
        rest_problem(r, &err);
    }
    return err.code == RC_OK;
}

void rest_page_token(const void *key, size_t len, char ret[REST_PAGE_TOKEN_SIZE])
{
    const uint8_t *bytes = key;

    ret[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* ---- bodies ---- */

const char *rest_body_bytes(struct rest_request *r, size_t *ret_len)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(r->http);
    const char *bytes = (const char *)evbuffer_pullup(in, -1);

    *ret_len = bytes ? evbuffer_get_length(in) : 0;
    return bytes ? bytes : "";
}

json_t *rest_body(struct rest_request *r)
{
    size_t len;
    const char *bytes = rest_body_bytes(r, &len);
    json_error_t where;
    struct err err = { 0 };

    if (r->body) { /* read before */
        return r->body;
    }
    r->body = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(r->body)) {
        return r->body;
    }
    if (r->body) {
        err_field(&err, RC_INVALID, "", "json_object", "the body is no JSON object");
    } else {
        err_field(&err, RC_INVALID, "", "json_syntax",
                  "the body, line %d column %d: %s", where.line, where.column,
                  where.text);
    }
    rest_problem(r, &err);
    return NULL;
}

/* ---- what a mutation says of itself ---- */

/* An ETag of ours ("17", quotes included) or the bare revision. */
static enum rc read_if_match(struct rest_request *r, struct command *command,
                             struct err *err)
{
    const char *text = rest_header(r, "If-Match");
    size_t len = text ? strlen(text) : 0;
    char digits[24] = "";

    if (rest_header(r, "If-None-Match") || rest_header(r, "If-Unmodified-Since")) {
        return err_field(err, RC_INVALID, "If-None-Match", "precondition",
                         "of preconditions only If-Match is known");
    }
    if (!text) {
        return RC_OK;
    }
    if (len > 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    if (len < sizeof(digits)) {
        snprintf(digits, sizeof(digits), "%.*s", (int)len, text);
    }
    if (!read_number(digits, INT64_MAX, &command->if_revision) ||
        command->if_revision == 0) {
        return err_field(err, RC_INVALID, "If-Match", "revision",
                         "If-Match: not the one ETag of a revision");
    }
    return RC_OK;
}

enum rc rest_command_init(struct rest_request *r, struct command *command,
                          struct err *err)
{
    const char *id = rest_query(r, "requestId");
    enum rc rc = rest_query_bool(r, "dryRun", &command->dry_run, err);

    rc = rc == RC_OK ? rest_query_bool(r, "confirm", &command->confirm, err) : rc;
    rc = rc == RC_OK ? read_if_match(r, command, err) : rc;
    if (rc == RC_OK && id && (!id[0] || strlen(id) >= sizeof(command->request_id))) {
        rc = err_field(err, RC_RANGE, "requestId", "length",
                       "requestId: 1 to %zu bytes", sizeof(command->request_id) - 1);
    }
    if (rc == RC_OK) {
        strcpy(command->who, r->who);
        strcpy(command->request_id, id ? id : "");
    }
    return rc;
}
