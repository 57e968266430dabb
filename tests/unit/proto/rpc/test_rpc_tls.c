/* TLS with certificates that the openssl command makes in a scratch folder. */
#include "tests/unit/proto/rpc/rpc_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "proto/rpc/rpc_tls.h"

static struct fixture f;
static char dir[] = "/tmp/xgw-tls-XXXXXX";

static const char *const make_all =
    "set -e; cd '%s'; exec 2>/dev/null\n"
    "ca() { openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj \"/CN=$2\""
    " -keyout $1.key -out $1.crt; }\n"
    "leaf() { openssl req -newkey rsa:2048 -nodes -subj \"/CN=$3\" -keyout $2.key"
    " -out $2.csr; printf 'subjectAltName=%%s' \"$4\" >$2.ext;"
    " openssl x509 -req -in $2.csr -CA $1.crt -CAkey $1.key -CAcreateserial"
    " -days ${5:-2} -extfile $2.ext -out $2.crt; }\n"
    "ca ca test-ca; ca ca2 other-ca\n"
    "leaf ca server server IP:127.0.0.1; leaf ca gw7 gw-7a DNS:gw-7a\n"
    "leaf ca2 alien gw-7a DNS:gw-7a; leaf ca2 server2 server IP:127.0.0.1\n"
    "leaf ca wrongname server DNS:elsewhere\n"
    "echo nonsense >bad.pem\n";

static char *path(const char *name)
{
    static char paths[32][128];
    static unsigned next;
    char *to = paths[next++ % 32];

    snprintf(to, sizeof(paths[0]), "%s/%s", dir, name);
    return to;
}

/* One command for all tests: it runs before libcheck forks. */
static void make_certificates(void)
{
    static char script[2000];

    if (!mkdtemp(dir)) {
        abort();
    }
    snprintf(script, sizeof(script), make_all, dir);
    if (system(script) != 0) {
        fprintf(stderr, "openssl could not make certificates\n");
        exit(EXIT_FAILURE);
    }
}

static struct rpc_tls tls_of(const char *ca, const char *cert, const char *key)
{
    return (struct rpc_tls){ .ca_file = ca ? path(ca) : NULL,
                             .cert_file = cert ? path(cert) : NULL,
                             .key_file = key ? path(key) : NULL };
}

static void up(const struct rpc_tls *server, const struct rpc_tls *client,
               const char *tls_name)
{
    const struct rpc_channel_options co = { .tls = client, .tls_name = tls_name };

    fixture_init(&f);
    fixture_serve(&f, NULL, server, "127.0.0.1:0");
    fixture_dial(&f, &co);
}

static const struct rpc_call_options patient = { .deadline_ms = 10000 };

START_TEST(a_good_certificate_names_the_peer)
{
    const struct rpc_tls server = tls_of("ca.crt", "server.crt", "server.key");
    const struct rpc_tls client = tls_of("ca.crt", "gw7.crt", "gw7.key");
    struct seen s;

    up(&server, &client, NULL);
    s = ask(&f, "who", &patient);
    ck_assert_msg(s.code == RPC_OK, "%s", s.message);
    ck_assert_str_eq(s.last, "gw-7a");
    fixture_down(&f);
}
END_TEST

static const struct {
    const char *what;
    const char *ca, *cert, *key;
} refused[] = {
    { "no certificate", "ca.crt", NULL, NULL },
    { "another CA's certificate", "ca.crt", "alien.crt", "alien.key" },
    { "a client that trusts another CA", "ca2.crt", "gw7.crt", "gw7.key" },
};

START_TEST(a_handshake_without_trust_fails)
{
    const struct rpc_tls server = tls_of("ca.crt", "server.crt", "server.key");
    const struct rpc_tls client =
        tls_of(refused[_i].ca, refused[_i].cert, refused[_i].key);
    struct seen s;

    up(&server, &client, NULL);
    s = ask(&f, "who", &patient);
    ck_assert_msg(s.code == RPC_UNAVAILABLE, "%s: %s", refused[_i].what,
                  rpc_code_name(s.code));
    ck_assert_uint_eq(f.echo.opened, 0);
    fixture_down(&f);
}
END_TEST

START_TEST(plain_text_and_tls_do_not_talk)
{
    const struct rpc_tls server = tls_of("ca.crt", "server.crt", "server.key");
    const struct rpc_tls client = tls_of("ca.crt", "gw7.crt", "gw7.key");

    up(&server, NULL, NULL);
    ck_assert_int_eq(ask(&f, "who", &patient).code, RPC_UNAVAILABLE);
    fixture_down(&f);
    up(NULL, &client, NULL);
    ck_assert_int_eq(ask(&f, "who", &patient).code, RPC_UNAVAILABLE);
    fixture_down(&f);
}
END_TEST

START_TEST(the_servers_name_is_checked)
{
    const struct rpc_tls server = tls_of("ca.crt", "wrongname.crt", "wrongname.key");
    const struct rpc_tls client = tls_of("ca.crt", "gw7.crt", "gw7.key");

    up(&server, &client, NULL);
    ck_assert_int_eq(ask(&f, "who", &patient).code, RPC_UNAVAILABLE);
    fixture_down(&f);
    up(&server, &client, "elsewhere");
    ck_assert_str_eq(ask(&f, "who", &patient).last, "gw-7a");
    fixture_down(&f);
}
END_TEST

START_TEST(callers_with_tokens_need_no_certificate)
{
    struct rpc_tls server = tls_of(NULL, "server.crt", "server.key");
    const struct rpc_tls client = tls_of("ca.crt", NULL, NULL);
    struct seen s;

    server.client_cert = RPC_CLIENT_CERT_NONE;
    up(&server, &client, NULL);
    s = ask(&f, "who", &patient);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_str_eq(s.last, "");
    fixture_down(&f);

    server = tls_of("ca.crt", "server.crt", "server.key");
    server.client_cert = RPC_CLIENT_CERT_REQUEST;
    up(&server, &client, NULL);
    ck_assert_str_eq(ask(&f, "who", &patient).last, "");
    fixture_down(&f);
}
END_TEST

static void copy_file(const char *from, const char *to)
{
    char command[400];

    snprintf(command, sizeof(command), "cp '%s' '%s.new' && mv '%s.new' '%s'",
             path(from), path(to), path(to), path(to));
    ck_assert_int_eq(system(command), 0);
}

/* The client trusts the second CA only, so it succeeds once the new files serve. */
START_TEST(replaced_files_serve_new_connections)
{
    const struct rpc_tls server = tls_of("ca.crt", "live.crt", "live.key");
    const struct rpc_tls first = tls_of("ca.crt", "gw7.crt", "gw7.key");
    const struct rpc_tls second = tls_of("ca2.crt", "gw7.crt", "gw7.key");
    const struct rpc_channel_options co = { .tls = &second };
    struct seen open;
    struct seen s;

    copy_file("server.crt", "live.crt");
    copy_file("server.key", "live.key");
    up(&server, &first, NULL);
    ck_assert_int_eq(ask(&f, "who", &patient).code, RPC_OK);
    open_stream(&f, "/test.Echo/Bidi", NULL, &open);
    RUN_UNTIL(&f, open.opened);
    copy_file("server2.key", "live.key");
    copy_file("server2.crt", "live.crt");
    fixture_dial(&f, &co);
    do {
        s = ask(&f, "who", &patient);
    } while (s.code == RPC_UNAVAILABLE); /* the test's timeout bounds it */
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(open.closed, 0);
    rpc_call_send_bytes(open.call, "alive", 5);
    RUN_UNTIL(&f, open.messages == 1);
    fixture_down(&f);
}
END_TEST

static const struct {
    const char *ca, *cert, *key, *field, *rule;
    enum rc rc;
} wrong[] = {
    { NULL, "server.crt", "server.key", "tls.ca_file", "required", RC_INVALID },
    { "none.crt", "server.crt", "server.key", "tls.ca_file", "readable_file",
      RC_NOT_FOUND },
    { "bad.pem", "server.crt", "server.key", "tls.ca_file", "pem_certificate",
      RC_INVALID },
    { "ca.crt", NULL, NULL, "tls.cert_file", "required", RC_INVALID },
    { "ca.crt", "bad.pem", "server.key", "tls.cert_file", "pem_certificate",
      RC_INVALID },
    { "ca.crt", "server.crt", "bad.pem", "tls.key_file", "pem_key", RC_INVALID },
    { "ca.crt", "server.crt", "gw7.key", "tls.key_file", "key_of_certificate",
      RC_INVALID },
};

START_TEST(wrong_files_are_named_before_anything_listens)
{
    struct rpc_tls tls = tls_of(wrong[_i].ca, wrong[_i].cert, wrong[_i].key);
    struct rpc_server *server = NULL;
    struct err err = { 0 };

    fixture_init(&f);
    rpc_server_new(f.client_loop, NULL, &server, &err);
    ck_assert_int_eq(rpc_server_listen(server, "127.0.0.1:0", &tls, NULL, &err),
                     wrong[_i].rc);
    ck_assert_str_eq(err.field, wrong[_i].field);
    ck_assert_str_eq(err.rule, wrong[_i].rule);
    rpc_loop_free(f.client_loop);
    event_base_free(f.base);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rpc_tls");
    char command[100];
    int rc;

    make_certificates();
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_good_certificate_names_the_peer);
    tcase_add_loop_test(tc, a_handshake_without_trust_fails, 0, ARRAY_LEN(refused));
    tcase_add_test(tc, plain_text_and_tls_do_not_talk);
    tcase_add_test(tc, the_servers_name_is_checked);
    tcase_add_test(tc, callers_with_tokens_need_no_certificate);
    tcase_add_test(tc, replaced_files_serve_new_connections);
    tcase_add_loop_test(tc, wrong_files_are_named_before_anything_listens, 0,
                        ARRAY_LEN(wrong));
    rc = unit_run("rpc_tls", tc);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command) == 0 ? rc : EXIT_FAILURE;
}
