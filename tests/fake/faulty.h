/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that fails at the n-th call of its slots that can fail, and rejects host memory. It passes all other calls on to the backend
   cpu or to the backend late. */
#ifndef CG_FAULTY_H
#define CG_FAULTY_H

/* From now on the n-th call of a slot that can fail returns a failure (1: the next such call); n 0: no call does. Returns the number of
   calls of slots that can fail since faulty_at() was called last. */
long faulty_at(long n);
/* The name of the slot that failed since faulty_at() was called last; NULL: none has. */
const char *faulty_call(void);
/* The number of devices, queues, blocks of device memory and built modules that were not released. */
long faulty_held(void);

#endif
