/* What evhttp refuses by itself, in our words: problem details in the place of its
 * pages.  There is no request to answer, so this writes the whole answer. */
#include "controller/api/rest_internal.h"

#include <stdlib.h>
#include <string.h>

#define STRING(x) #x
#define NUMBER(x) STRING(x)
#define HEADERS   NUMBER(REST_HEADERS_MAX)

static const struct page {
    int status;
    const char *reason; /* of the status line */
    const char *code;
    const char *rule;
    const char *detail;
} pages[] = {
    /* evhttp makes 400 of all that it cannot read, over-long headers among it */
    { 400, "Bad Request", "invalid", "http_syntax",
      "not a request of HTTP/1.0 or 1.1: its first line, its headers (" HEADERS
      " bytes at most) or its length cannot be read" },
    { 413, "Content Too Large", "range", "body_size",
      "the body is over 4 MiB, or its chunks cannot be read" },
    { 417, "Expectation Failed", "invalid", "expectation",
      "Expect: only 100-continue is known" },
    { 501, "Not Implemented", "method", NULL, "no such method" },
    { 503, "Service Unavailable", "full", "connections",
      "too many connections: try again" },
};
_Static_assert(REST_BODY_MAX == 4u << 20, "as the text says");

int rest_page_status(struct evbuffer *page)
{
    static const char prefix[] = "HTTP/1.1 ";
    char line[sizeof(prefix) + 3] = "";

    evbuffer_copyout(page, line, sizeof(line) - 1);
    return strlen(line) < sizeof(prefix) ? 0 : atoi(line + sizeof(prefix) - 1);
}

/* What has no words of its own is 400. */
static const struct page *find_page(int status)
{
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (pages[i].status == status) {
            return &pages[i];
        }
    }
    return &pages[0];
}

void rest_page_write(struct evbuffer *out, int status)
{
    const struct page *page = find_page(status);
    json_t *json = rest_problem_json(page->status, page->code, page->detail);
    char *text;

    if (page->rule) {
        json_object_set_new(json, "rule", json_string(page->rule));
    }
    text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    evbuffer_add_printf(out,
                        "HTTP/1.1 %d %s\r\n"
                        "Content-Type: application/problem+json\r\n"
                        "Content-Length: %zu\r\n"
                        "Cache-Control: no-store\r\n"
                        "X-Content-Type-Options: nosniff\r\n"
                        "%sConnection: close\r\n\r\n%s",
                        page->status, page->reason, text ? strlen(text) : 2,
                        page->status == 503 ? "Retry-After: 1\r\n" : "",
                        text ? text : "{}");
    free(text);
}
