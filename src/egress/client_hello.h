/*
 * client_hello.h: TLS's first message, and the name of a server in it. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_HANDSHAKE     0x16 /* the type of a record */
#define TLS_RECORD_HEADER 5

/* 0: no record of a handshake, or one that may not be. */
size_t tls_record_size(const uint8_t header[TLS_RECORD_HEADER]);

/* Longer ones are bad. */
#define CLIENT_HELLO_MAX (16u << 10)

enum hello { HELLO_MORE, HELLO_OK, HELLO_BAD };

typedef bool hello_name_fn(void *ctx, const char *name, size_t len);

/*
 * data: the bytes of handshake records, without those's headers. ok is asked about the one
 * name that there is; HELLO_OK without a name too. What is behind the message is not looked at.
 */
enum hello client_hello_check(const char *data, size_t len, hello_name_fn *ok, void *ctx);
