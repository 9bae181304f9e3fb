/*
 * inherit.h: what `cay serve` leaves open for cay-api, by number.
 */
#pragma once

enum api_fd {
	API_FD_LAUNCHER = 3, /* engine/service.h */
	API_FD_CONTAINERS,   /* the same, of containers */
	API_FD_EGRESS,       /* egress/wire.h */
	API_FD_IMAGES,       /* image/order.h */
	API_FD_READY,        /* a byte is written here when requests are taken */
	API_FD_SETTINGS,     /* the operator's, as text */
	API_FD_STATE,        /* the directory of the database */
	API_FD_UNIX,         /* listens */
	API_FD_TCP,          /* listens; or closed */
	API_FD_LIVE, /* to who hands settings on at run time (cli/serve_live.h); or closed */
	API_FDS_END,
};
