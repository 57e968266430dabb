#include "controller/api/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define TOKENS_MAX 1024
#define TOKEN_MIN  16
#define TOKEN_MAX  255
#define LINE_SIZE  512

struct token {
    char text[TOKEN_MAX + 1]; /* zero behind the token: compared whole */
    char name[AUTH_NAME_MAX + 1];
    enum role role;
};

struct auth {
    int is_open;
    unsigned count;
    struct token *tokens;
};

static const char *const role_names[] = { "none", "viewer", "operator", "admin" };

const char *role_name(enum role role)
{
    return role_names[role];
}

static enum role role_parse(const char *text)
{
    for (enum role role = ROLE_VIEWER; role <= ROLE_ADMIN; role++) {
        if (strcmp(role_names[role], text) == 0) {
            return role;
        }
    }
    return ROLE_NONE;
}

/* One line: RC_OK also for an empty one or a comment. */
static enum rc read_line(struct auth *a, char *line, const char *path, unsigned number,
                         struct err *err)
{
    char *rest = line;
    char *words[4] = { 0 };
    unsigned count = 0;
    struct token *t;

    line[strcspn(line, "#\r\n")] = '\0';
    for (char *word; (word = strsep(&rest, " \t")) != NULL && count < 4;) {
        if (*word != '\0') {
            words[count++] = word;
        }
    }
    if (count == 0) {
        return RC_OK;
    }
    if (count != 3 || role_parse(words[1]) == ROLE_NONE) {
        return err_set(err, RC_INVALID,
                       "%s:%u: not TOKEN ROLE NAME with role viewer, operator or admin",
                       path, number);
    }
    if (strlen(words[0]) < TOKEN_MIN || strlen(words[0]) > TOKEN_MAX ||
        strlen(words[2]) > AUTH_NAME_MAX || a->count == TOKENS_MAX) {
        return err_set(err, RC_RANGE,
                       "%s:%u: a token has %d to %d characters, a name at most %d, a "
                       "file %d tokens",
                       path, number, TOKEN_MIN, TOKEN_MAX, AUTH_NAME_MAX, TOKENS_MAX);
    }
    for (unsigned i = 0; i < a->count; i++) {
        if (strcmp(a->tokens[i].text, words[0]) == 0) {
            return err_field(err, RC_INVALID, "token", "repeated_token",
                             "%s:%u: the token of another line", path, number);
        }
    }
    t = &a->tokens[a->count++];
    strcpy(t->text, words[0]);
    strcpy(t->name, words[2]);
    t->role = role_parse(words[1]);
    return RC_OK;
}

static enum rc read_file(struct auth *a, FILE *f, const char *path, struct err *err)
{
    char line[LINE_SIZE];
    unsigned number = 0;
    struct stat st;
    enum rc rc = RC_OK;

    if (fstat(fileno(f), &st) != 0 || (st.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
        return err_set(err, RC_DENIED, "%s: mode lets others in: chmod 0600", path);
    }
    while (rc == RC_OK && fgets(line, sizeof(line), f)) {
        number++;
        if (!strchr(line, '\n') && !feof(f)) {
            return err_set(err, RC_INVALID, "%s:%u: a line has at most %d bytes", path,
                           number, LINE_SIZE - 2);
        }
        rc = read_line(a, line, path, number, err);
    }
    if (rc == RC_OK && ferror(f)) {
        rc = err_set(err, RC_UNREACHABLE, "%s: cannot be read", path);
    }
    return rc;
}

enum rc auth_load(const char *path, struct auth **ret, struct err *err)
{
    struct auth *a = calloc(1, sizeof(*a));
    enum rc rc = RC_OK;
    FILE *f;

    if (a && path[0] != '\0') {
        a->tokens = calloc(TOKENS_MAX, sizeof(*a->tokens));
    }
    if (!a || (path[0] != '\0' && !a->tokens)) {
        auth_free(a);
        return err_set(err, RC_NO_MEMORY, "tokens: no memory");
    }
    if (path[0] == '\0') {
        a->is_open = 1;
        *ret = a;
        return RC_OK;
    }
    f = fopen(path, "r");
    rc = f ? read_file(a, f, path, err)
           : err_set(err, RC_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (f) {
        fclose(f);
    }
    if (rc != RC_OK) {
        auth_free(a);
        return rc;
    }
    *ret = a;
    return RC_OK;
}

void auth_free(struct auth *a)
{
    if (a) {
        free(a->tokens);
        free(a);
    }
}

int auth_is_open(const struct auth *a)
{
    return a->is_open;
}

/* No early exit: how long it takes says nothing of how much was right. */
static int equal(const char *a, const char *b)
{
    unsigned char differ = 0;

    for (int i = 0; i <= TOKEN_MAX; i++) {
        differ |= (unsigned char)(a[i] ^ b[i]);
    }
    return differ == 0;
}

enum role auth_check(const struct auth *a, const char *authorization, char *who)
{
    char shown[TOKEN_MAX + 1] = { 0 };
    enum role role = ROLE_NONE;

    strcpy(who, "anonymous");
    if (a->is_open) {
        return ROLE_ADMIN;
    }
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0 ||
        strlen(authorization + 7) > TOKEN_MAX) {
        return ROLE_NONE;
    }
    strcpy(shown, authorization + 7);
    for (unsigned i = 0; i < a->count; i++) {
        if (equal(a->tokens[i].text, shown)) {
            role = a->tokens[i].role;
            strcpy(who, a->tokens[i].name);
        }
    }
    return role;
}
