#include "controller/cli/import_input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "proto/model/entry_fields.h"

/* How long the last line of `bytes` is, which began with `open` bytes before them. */
static size_t open_line(const char *bytes, size_t n, size_t open)
{
    const char *end = memrchr(bytes, '\n', n);

    return end ? (size_t)(bytes + n - end) - 1 : open + n;
}

/* What `from` gives, in a nameless file; -1 and errno on failure.  It ends where a line
 * is so long that the import will refuse it: what is behind does not matter, and an
 * endless line must not fill the disk. */
static int spool(int from)
{
    char bytes[1 << 16];
    size_t line = 0;
    int to = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ssize_t n = 0;

    if (to < 0) {
        to = memfd_create("import", MFD_CLOEXEC);
    }
    while (to >= 0 && line <= ENTRY_LINE_MAX + 1 &&
           (n = read(from, bytes, sizeof(bytes))) != 0) {
        for (ssize_t at = 0; at < n;) {
            ssize_t done = write(to, bytes + at, (size_t)(n - at));

            if (done < 0 && errno != EINTR) {
                close(to);
                return -1;
            }
            at += done > 0 ? done : 0;
        }
        if (n < 0 && errno != EINTR) {
            close(to);
            return -1;
        }
        line = n > 0 ? open_line(bytes, (size_t)n, line) : line;
    }
    return to;
}

static enum rc map(struct import_input *in, int fd, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return err_set(err, RC_INVALID, "%s: %s", in->name, strerror(errno));
    }
    in->len = (size_t)st.st_size;
    in->text = "";
    if (in->len == 0) {
        return RC_OK;
    }
    in->map = mmap(NULL, in->len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (in->map == MAP_FAILED) {
        in->map = NULL;
        return err_set(err, RC_INVALID, "%s: %s", in->name, strerror(errno));
    }
    madvise(in->map, in->len, MADV_SEQUENTIAL);
    in->text = in->map;
    return RC_OK;
}

static enum rc find_format(struct import_input *in, const char *format, struct err *err)
{
    size_t n = strlen(in->name);
    size_t at = 0;

    if (format && strcmp(format, "csv") != 0 && strcmp(format, "ndjson") != 0) {
        return err_field(err, RC_INVALID, "format", "format",
                         "format '%s': not ndjson or csv", format);
    }
    while (at < in->len && strchr("\xef\xbb\xbf \t\r\n", in->text[at])) {
        at++;
    }
    if (format) {
        in->format = strcmp(format, "csv") == 0 ? IMPORT_CSV : IMPORT_NDJSON;
    } else if (n > 4 && strcmp(in->name + n - 4, ".csv") == 0) {
        in->format = IMPORT_CSV;
    } else {
        in->format = at == in->len || in->text[at] == '{' ? IMPORT_NDJSON : IMPORT_CSV;
    }
    return RC_OK;
}

enum rc import_input_open(struct import_input *in, const char *path, const char *format,
                          struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int given = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    enum rc rc;
    int fd = given;

    memset(in, 0, sizeof(*in));
    in->name = is_stdin ? "(stdin)" : path;
    if (given < 0) {
        return err_set(err, errno == ENOENT ? RC_NOT_FOUND : RC_INVALID, "%s: %s",
                       in->name, strerror(errno));
    }
    if (fstat(given, &st) != 0 || !S_ISREG(st.st_mode)) {
        fd = spool(given);
    }
    if (fd < 0) {
        rc = err_set(err, RC_INVALID, "%s: %s", in->name, strerror(errno));
    } else {
        rc = map(in, fd, err);
    }
    if (fd >= 0 && fd != given) {
        close(fd);
    }
    close(given);
    rc = rc == RC_OK ? find_format(in, format, err) : rc;
    if (rc != RC_OK) {
        import_input_close(in);
    }
    return rc;
}

void import_input_close(struct import_input *in)
{
    if (in->map) {
        munmap(in->map, in->len);
    }
    in->map = NULL;
    in->text = "";
    in->len = 0;
}

void import_input_digest(const struct import_input *in, uint64_t run,
                         uint8_t ret[IMPORT_DIGEST_SIZE])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(in->text, in->len, run));
    memcpy(ret, canonical.digest, IMPORT_DIGEST_SIZE);
}
