/*
 * client_hello.h: TLS's first message, and the name of a server in it. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first byte of a record. */
#define TLS_CHANGE_CIPHER 0x14
#define TLS_ALERT         0x15
#define TLS_HANDSHAKE     0x16
#define TLS_DATA          0x17

#define TLS_RECORD_HEADER 5

/* 0: no record, or one that may not be. */
size_t tls_record_size(const uint8_t header[TLS_RECORD_HEADER]);

/* Longer ones are bad. */
#define CLIENT_HELLO_MAX (16u << 10)

enum hello { HELLO_MORE, HELLO_OK, HELLO_BAD };

typedef bool hello_name_fn(void *ctx, const char *name, size_t len);

/*
 * data: the bytes of handshake records, without those's headers. ok is asked about the one
 * name that there is; HELLO_OK without a name too. Nothing may be behind the message: whoever says
 * it waits for an answer. *ret_early: but for data that is sent before that.
 */
enum hello client_hello_check(const char *data, size_t len, hello_name_fn *ok, void *ctx,
			      bool *ret_early);

/* Whether it may be the beginning of one, and is not another message, or an encrypted one. */
#define CLIENT_HELLO_BEGIN 5 /* bytes that it is known by */
bool client_hello_begins(const char *data, size_t len);
