/* SPDX-License-Identifier: Apache-2.0 */
/* What the computations of the stand-in's three calls share, forward and backward. */
#ifndef FAKE_CUDNN_NET_H
#define FAKE_CUDNN_NET_H

#include "cudnn.h"

#define DNN_MARK UINT64_C(0x66616b65636e6e21)            /* the mark of a reserve that a forward has written */

/* ---- memory, when the work runs; fake_reach_...() return 0, or a code of CUDA after a report ---- */

int fake_reach_sequence(const struct net *, const struct sequence *, int how);
int fake_reach_state(const struct net *, uint64_t at, int64_t width, int how);
int fake_reach_weights(const struct net *, uint64_t at, int how);
int fake_reach_work(const struct net *);
int fake_reach_lengths(const struct net *);
size_t fake_state_bytes(const struct net *, int64_t width);

/* Read and write an element of device memory; an element of an absent argument is read as 0, and not written. */
double fake_get(const struct net *, uint64_t at, int64_t k);
void fake_put(const struct net *, uint64_t at, int64_t k, double x);
double fake_as_stored(const struct net *, double x);
void fake_read_sequence(const struct net *, const struct sequence *, double *to);
void fake_fill_padding(const struct net *, const struct sequence *, int fills);
double *fake_alloc(int64_t n);

/* ---- one direction of one layer ---- */

static inline int64_t fake_time(int64_t d, int64_t s, int64_t n)
{
	return d ? n - 1 - s : s;
}

struct layer_run {
	const struct net *net;
	const struct saved *saved;
	struct pseudo *p;
	struct weights w;
	int64_t layer, d, in;
	double *a, *r;                           /* a: W x + b; r: R h + b; [gates U] each */
};

struct layer_run fake_start(const struct net *, const struct saved *, int64_t layer, int64_t d);
void fake_finish(struct layer_run *);
/* Returns pointers to the values of step s of row b, and to those of the step before it. */
struct step fake_step(const struct layer_run *, int64_t s, int64_t b);

#endif
