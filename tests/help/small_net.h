/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small network with all memory of a call, on the host or on a device, for tests of everything about its calls but the values.
 */
#ifndef SMALL_NET_H
#define SMALL_NET_H

#include "runtime/cellgrad.h"

/* How a pass uses an argument. */
enum net_flow { NET_NOT, NET_IN, NET_MUST, NET_OUT };    /* NET_MUST: an input that may not be absent */
struct net_port { const char *name; size_t at; enum net_flow forward, backward; };
enum { NET_PORTS = 15 };
extern const struct net_port net_ports[NET_PORTS];

struct net {
	struct cg_context *context;              /* context and stream belong to the caller */
	struct cg_stream *stream;
	struct cg_rnn_config config;
	struct cg_rnn *rnn;
	struct cg_rnn_call call;
	int place;                               /* where the arguments' memory is: CG_HOST or CG_DEVICE */
	int salt;                                /* networks with different salts have different input values */
};

/* Sets up an lstm of 2 layers, 3 inputs and 4 units, T 3, B 2, in f32, on the host; opens nothing. */
void net_begin(struct net *, struct cg_context *, struct cg_stream *);
/* Opens the plan and allocates the memory of a call, for all arguments that the cell has; returns CG_OK or the code of the first failure.
   Inputs are numbers of which adjacent ones differ, outputs and workspace are full of 0xa5. */
int  net_open(struct net *);
/* Frees the memory of all arguments and the workspace, and closes the plan. */
void net_close(struct net *);
/* Frees the memory of one argument, or the workspace. */
void net_free(struct net *, struct cg_mem *);
struct cg_mem *net_mem(struct net *, const struct net_port *);
/* Bytes of an argument: of params and the reserve space, what cg_rnn_sizes() says; of others, computed from the shape without the
 * library. */
size_t net_bytes(const struct net *, const struct net_port *);
int  net_forward(struct net *);
int  net_backward(struct net *);
/* Stores in *print a checksum of the bytes of all arguments that calls write, but for reserve space and workspace; returns a code. */
int  net_print(struct net *, uint64_t *print);

#endif
