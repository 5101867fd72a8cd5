/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small network with all memory of a call, on the host or on a device, for tests of everything about its calls but the values.
 */
#ifndef SMALL_NET_H
#define SMALL_NET_H

#include "runtime/cellgrad.h"

/* What a port is to a pass. */
enum net_flow { NET_NOT, NET_IN, NET_MUST, NET_OUT };    /* NET_MUST: an input without which there is none */
struct net_port { const char *name; size_t at; enum net_flow forward, backward; };
enum { NET_PORTS = 15 };
extern const struct net_port net_ports[NET_PORTS];

struct net {
	struct cg_context *context;              /* the caller's, like the stream */
	struct cg_stream *stream;
	struct cg_rnn_config config;
	struct cg_rnn *rnn;
	struct cg_rnn_call call;
	int place;                               /* of its memory */
	int salt;                                /* other numbers than those of another salt */
};

/* An lstm of 2 layers, 3 inputs and 4 units, T 3, B 2, in f32, on the host; nothing opened yet. */
void net_begin(struct net *, struct cg_context *, struct cg_stream *);
/* Opens the plan and takes the memory of a call, all ports that the cell has; the first failure.  Inputs are neither zeros nor
 * alike, outputs and work are full of 0xa5. */
int  net_open(struct net *);
/* Gives back what there is. */
void net_close(struct net *);
/* Gives back one block of it. */
void net_free(struct net *, struct cg_mem *);
struct cg_mem *net_mem(struct net *, const struct net_port *);
/* Bytes of a port by its shape, which is written down here once more. */
size_t net_bytes(const struct net *, const struct net_port *);
int  net_forward(struct net *);
int  net_backward(struct net *);
/* A sum over the bytes of all that calls write, for comparisons. */
int  net_print(struct net *, uint64_t *print);

#endif
