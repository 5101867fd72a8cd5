/* SPDX-License-Identifier: Apache-2.0 */
/* Times work on a stream by the driver's events, for programs that measure on a GPU. */
#ifndef GPU_TIME_H
#define GPU_TIME_H

#include "backends/cuda/cuda.h"

/* Returns a function of the driver that the library does not use, by its name; NULL if this driver lacks it. */
void *gpu_call(const char *name);

/* A timer: two events of the driver, both NULL where the driver has no events, as a stand-in. */
struct gpu_timer { void *from, *to; };

void gpu_timer_open(struct gpu_timer *);
void gpu_timer_close(struct gpu_timer *);
void gpu_timer_start(const struct gpu_timer *, struct cg_queue *);
void gpu_timer_stop(const struct gpu_timer *, struct cg_queue *);
/* The milliseconds between the timer's two events, once the stream's work is done; -1 without events, or if the driver gives no time. */
double gpu_timer_ms(const struct gpu_timer *);

/* A CUDA graph, with which a stream's work runs again without the host's part: gpu_graph_begin captures the stream's work from then on, and
 * gpu_graph_end ends that and returns the graph; NULL: this driver has no graphs, or something forbade the capture. */
void  gpu_graph_begin(struct cg_queue *);
void *gpu_graph_end(struct cg_queue *);
int   gpu_graph_launch(void *graph, struct cg_queue *);
void  gpu_graph_close(void *graph);

/* Fills memory with numbers of a dtype, with magnitudes from 1/16 to 1/8 and random signs: times with zeros would be too short. */
void gpu_noise(void *to, size_t elements, int dtype, unsigned long long *state);

/* The number at this share of n sorted numbers: share 0.5 gives the median. */
double gpu_share(const double *sorted, int n, double share);
int gpu_compare(const void *, const void *);

#endif
