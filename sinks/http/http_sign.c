/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http/http_sink.h"
#include "bridge/base/text.h"

#include <inttypes.h>
#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { ED25519_BYTES = 32, SIGNATURE_MAX = 64 };

static const struct kind {
    const char *key_begins, *signature_begins;
    int pkey_type;
    const EVP_MD *(*digest)(void); /* NULL: part of the signature algorithm */
    size_t least, most;            /* bytes of a key */
} kinds[] = {
    {"whsec_", "v1,", EVP_PKEY_HMAC, EVP_sha256, 24, 64},
    {"whsk_", "v1a,", EVP_PKEY_ED25519, NULL, ED25519_BYTES, 2 * ED25519_BYTES},
};

struct http_signer {
    size_t n;
    struct key {
        const struct kind *kind;
        EVP_MD_CTX *ready; /* template, copied for each signature: creating one is
                            * slower */
    } keys[];
};

static const struct kind *kind_of(const char *text)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strncmp(text, kinds[i].key_begins, strlen(kinds[i].key_begins)) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* Does the second half of an ed25519 key match the public key derived from the first? */
static bool public_key_matches(EVP_PKEY *pkey, const unsigned char *public_half)
{
    unsigned char own[ED25519_BYTES];
    size_t n = sizeof(own);
    return EVP_PKEY_get_raw_public_key(pkey, own, &n) == 1 && n == sizeof(own) &&
           CRYPTO_memcmp(own, public_half, n) == 0;
}

static EVP_PKEY *make_pkey(const struct kind *kind, struct slice raw)
{
    const unsigned char *bytes = (const unsigned char *)raw.p;
    bool curve = kind->pkey_type == EVP_PKEY_ED25519;
    if (raw.n < kind->least || raw.n > kind->most ||
        (curve && raw.n != kind->least && raw.n != kind->most))
        return NULL;
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(kind->pkey_type, NULL, bytes,
                                                  curve ? ED25519_BYTES : raw.n);
    if (pkey && curve && raw.n > ED25519_BYTES &&
        !public_key_matches(pkey, bytes + ED25519_BYTES)) {
        EVP_PKEY_free(pkey);
        return NULL;
    }
    return pkey;
}

/* Takes ownership of pkey. */
static EVP_MD_CTX *new_sign_context(const struct kind *kind, EVP_PKEY *pkey)
{
    const EVP_MD *digest = kind->digest ? kind->digest() : NULL;
    EVP_MD_CTX *ready = EVP_MD_CTX_new();
    must(ready != NULL);
    must(EVP_DigestSignInit(ready, NULL, digest, NULL, pkey) == 1);
    EVP_PKEY_free(pkey); /* ready has a reference and wipes the key */
    return ready;
}

static int key_read(struct key *key, const char *text)
{
    struct buf raw = {0};
    EVP_PKEY *pkey = NULL;
    key->kind = kind_of(text);
    if (key->kind == NULL)
        return -1;
    text += strlen(key->kind->key_begins);
    buf_room(&raw, strlen(text) + 1); /* full size at once, so that no reallocation leaves
                                       * a copy */
    if (text_base64_decode(slice_of(text), &raw) == 0)
        pkey = make_pkey(key->kind, buf_slice(&raw));
    text_wipe(&raw);
    if (pkey == NULL)
        return -1;
    key->ready = new_sign_context(key->kind, pkey);
    return 0;
}

struct http_signer *http_signer_new(const struct opt_list *keys, struct err *err)
{
    struct http_signer *s = mem_alloc(sizeof(*s) + keys->n * sizeof(s->keys[0]));
    for (; s->n < keys->n; s->n++) {
        if (key_read(&s->keys[s->n], keys->v[s->n]) == 0)
            continue;
        err_set(
            err,
            "signing_keys: key number %zu is neither \"whsec_\" and 24 to 64 bytes in "
            "base64 nor \"whsk_\" and an ed25519 private key in base64",
            s->n + 1);
        http_signer_free(s);
        return NULL;
    }
    return s;
}

void http_signer_free(struct http_signer *signer)
{
    for (size_t i = 0; signer && i < signer->n; i++)
        EVP_MD_CTX_free(signer->keys[i].ready);
    free(signer);
}

static void add_one(const struct key *key, struct slice content, struct buf *out)
{
    unsigned char signature[SIGNATURE_MAX];
    size_t n = sizeof(signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx != NULL);
    must(EVP_MD_CTX_copy_ex(ctx, key->ready) == 1);
    must(EVP_DigestSign(ctx, signature, &n, (const unsigned char *)content.p,
                        content.n) == 1);
    EVP_MD_CTX_free(ctx);
    buf_add_str(out, key->kind->signature_begins);
    text_add_base64(out, (struct slice){(const char *)signature, n});
}

void http_signer_add(const struct http_signer *signer, struct slice id, int64_t now_s,
                     struct slice body, struct buf *out)
{
    struct buf content = {0};
    buf_add_slice(&content, id);
    buf_addf(&content, ".%" PRId64 ".", now_s);
    buf_add_slice(&content, body);
    for (size_t i = 0; i < signer->n; i++) {
        if (i > 0)
            buf_add_str(out, " ");
        add_one(&signer->keys[i], buf_slice(&content), out);
    }
    buf_free(&content);
}
