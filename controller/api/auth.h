/*
 * auth - who may do what: bearer tokens mapped to roles.
 *
 * The token file has one `TOKEN ROLE NAME` a line; '#' starts a comment; roles are
 * viewer, operator, admin.  Tokens have at least 16 characters.  The file's mode must
 * keep others out (0600 or 0640).  Comparison takes the same time for every token.
 * Values only change by auth_load(); the loop's thread.
 */
#pragma once

#include "proto/base/err.h"

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };

#define AUTH_NAME_MAX 63

struct auth;

/* `path` "" makes an auth that takes everybody as admin "anonymous": for a loopback
 * address only, which the caller checks.  Errors name file and line. */
enum rc auth_load(const char *path, struct auth **ret, struct err *err);
void auth_free(struct auth *a); /* null is fine */
int auth_is_open(const struct auth *a);

/* `authorization` is the header's value ("Bearer …"), or null.  Fills `who`
 * (AUTH_NAME_MAX
 * + 1 bytes) and returns the role; ROLE_NONE: unknown token. */
enum role auth_check(const struct auth *a, const char *authorization, char *who);

const char *role_name(enum role role);
