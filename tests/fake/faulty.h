/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that fails at the n-th call of its table; behind it is the cpu, without access to host memory, or late. */
#ifndef CG_FAULTY_H
#define CG_FAULTY_H

/* Makes the n-th call of the backend's table from now on fail (1: the next call); n 0: no call. Returns the number of calls
   since this was called last. */
long faulty_at(long n);
/* The name of the slot that failed last; NULL: no slot has failed. */
const char *faulty_call(void);
/* Devices, queues, blocks of device memory and built functions that were not released. */
long faulty_held(void);

#endif
