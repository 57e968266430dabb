#include "proto/rpc/rpc_tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#include "proto/rpc/rpc_core.h"

static enum rc open_pem(const char *field, const char *path, FILE **ret_file,
                        struct err *err)
{
    FILE *f;

    if (!path || path[0] == '\0') {
        return err_field(err, RC_INVALID, field, "required", "%s: not set", field);
    }
    f = fopen(path, "re");
    if (!f) {
        return err_field(err, errno == ENOENT ? RC_NOT_FOUND : RC_DENIED, field,
                         "readable_file", "%s %s: %s", field, path, strerror(errno));
    }
    *ret_file = f;
    return RC_OK;
}

/* The first certificate of a file, in date. */
static enum rc read_cert(const char *field, const char *path, X509 **ret_cert,
                         struct err *err)
{
    FILE *f = NULL;
    X509 *cert;
    enum rc rc = open_pem(field, path, &f, err);

    if (rc != RC_OK) {
        return rc;
    }
    cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    ERR_clear_error();
    if (!cert) {
        return err_field(err, RC_INVALID, field, "pem_certificate",
                         "%s %s: holds no PEM certificate", field, path);
    }
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
        X509_free(cert);
        return err_field(err, RC_STALE, field, "not_expired",
                         "%s %s: the certificate has expired", field, path);
    }
    *ret_cert = cert;
    return RC_OK;
}

/* Refuses a passphrase instead of asking for one on the terminal. */
static int no_passphrase(char *to, int size, int is_writing, void *arg)
{
    (void)to;
    (void)size;
    (void)is_writing;
    (void)arg;
    return -1;
}

static enum rc check_pair(const struct rpc_tls *tls, struct err *err)
{
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    FILE *f = NULL;
    enum rc rc = read_cert("tls.cert_file", tls->cert_file, &cert, err);

    if (rc != RC_OK) {
        return rc;
    }
    rc = open_pem("tls.key_file", tls->key_file, &f, err);
    if (rc != RC_OK) {
        X509_free(cert);
        return rc;
    }
    key = PEM_read_PrivateKey(f, NULL, no_passphrase, NULL);
    fclose(f);
    if (!key) {
        rc = err_field(err, RC_INVALID, "tls.key_file", "pem_key",
                       "tls.key_file %s: holds no PEM private key without passphrase",
                       tls->key_file);
    } else if (X509_check_private_key(cert, key) != 1) {
        rc = err_field(err, RC_INVALID, "tls.key_file", "key_of_certificate",
                       "tls.key_file %s: is not the key of %s", tls->key_file,
                       tls->cert_file);
    }
    ERR_clear_error();
    EVP_PKEY_free(key);
    X509_free(cert);
    return rc;
}

static bool wants_ca(const struct rpc_tls *tls, bool is_server)
{
    return !is_server || tls->client_cert != RPC_CLIENT_CERT_NONE;
}

static bool wants_pair(const struct rpc_tls *tls, bool is_server)
{
    return is_server || tls->cert_file || tls->key_file;
}

enum rc rpc_tls_check(const struct rpc_tls *tls, bool is_server, struct err *err)
{
    enum rc rc = RC_OK;

    if (wants_ca(tls, is_server)) {
        X509 *ca = NULL;

        rc = read_cert("tls.ca_file", tls->ca_file, &ca, err);
        X509_free(ca);
    }
    if (rc == RC_OK && wants_pair(tls, is_server)) {
        rc = check_pair(tls, err);
    }
    return rc;
}

static grpc_tls_credentials_options *make_options(const struct rpc_tls *tls,
                                                  bool is_server)
{
    const bool has_ca = wants_ca(tls, is_server);
    const bool has_pair = wants_pair(tls, is_server);
    grpc_tls_credentials_options *options = grpc_tls_credentials_options_create();
    grpc_tls_certificate_provider *files =
        grpc_tls_certificate_provider_file_watcher_create(
            has_pair ? tls->key_file : NULL, has_pair ? tls->cert_file : NULL,
            has_ca ? tls->ca_file : NULL, tls->refresh_s ? tls->refresh_s : 1);

    grpc_tls_credentials_options_set_certificate_provider(options, files);
    grpc_tls_certificate_provider_release(files);
    if (has_ca) {
        grpc_tls_credentials_options_watch_root_certs(options);
    }
    if (has_pair) {
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
    }
    return options;
}

static grpc_ssl_client_certificate_request_type request_type(enum rpc_client_cert want)
{
    switch (want) {
    case RPC_CLIENT_CERT_NONE:
        return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case RPC_CLIENT_CERT_REQUEST:
        return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case RPC_CLIENT_CERT_REQUIRE:
        break;
    }
    return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

enum rc rpc_tls_server(const struct rpc_tls *tls, grpc_server_credentials **ret,
                       struct err *err)
{
    grpc_tls_credentials_options *options;
    enum rc rc;

    if (!tls) {
        *ret = grpc_insecure_server_credentials_create();
        return RC_OK;
    }
    rc = rpc_tls_check(tls, true, err);
    if (rc != RC_OK) {
        return rc;
    }
    options = make_options(tls, true);
    grpc_tls_credentials_options_set_cert_request_type(options,
                                                       request_type(tls->client_cert));
    *ret = grpc_tls_server_credentials_create(options);
    return RC_OK;
}

enum rc rpc_tls_client(const struct rpc_tls *tls, grpc_channel_credentials **ret,
                       struct err *err)
{
    enum rc rc;

    if (!tls) {
        *ret = grpc_insecure_credentials_create();
        return RC_OK;
    }
    rc = rpc_tls_check(tls, false, err);
    if (rc != RC_OK) {
        return rc;
    }
    *ret = grpc_tls_credentials_create(make_options(tls, false));
    return RC_OK;
}
