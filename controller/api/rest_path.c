#include "controller/api/rest_path.h"

#include "proto/model/name.h"

#include <stddef.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes `len` bytes; false: no text that anything could be called. */
static bool decode(const char *from, size_t len, char to[REST_PARAM_SIZE])
{
    const char *end = from + len;
    size_t n = 0;

    while (from < end) {
        char c = *from++;

        if (n == REST_PARAM_SIZE - 1) {
            return false;
        }
        if (c == '%') {
            int high = end - from >= 2 ? hex_digit(from[0]) : -1;
            int low = high >= 0 ? hex_digit(from[1]) : -1;

            if (low < 0 || (high | low) == 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            from += 2;
        }
        to[n++] = c;
    }
    to[n] = '\0';
    return n > 0 && display_name_check(to, REST_PARAM_SIZE - 1, "path", NULL) == RC_OK;
}

bool rest_path_match(const char *template, const char *path,
                     char params[REST_PARAMS][REST_PARAM_SIZE])
{
    unsigned n = 0;

    while (*template) {
        size_t segment;

        if (*template != '{') {
            if (*template != *path) {
                return false;
            }
            template ++;
            path++;
            continue;
        }
        segment = strcspn(path, "/");
        if (!decode(path, segment, params[n++])) {
            return false;
        }
        path += segment;
        template += strcspn(template, "}") + 1;
    }
    return *path == '\0';
}
