/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and libraries as JSON.  Drivers are queried in child processes (child_process.h): one that ends its process gives a line
 * of its own.
 */
#ifndef INSPECT_JSON_H
#define INSPECT_JSON_H

#include <jansson.h>

#include "runtime/device/inspect.h"

/* Every device: [{ "name": "cuda:0", "opens": true, "about": cg_describe's line, or why it does not open, "ops": { name: [dtype] },
 * "networks": { "lstm peephole": { dtype: route } }, "parts": what its backend's list says of it }].  NULL: there is no memory. */
json_t *inspect_devices(void);
/* What cg_open(NULL) takes: { "opens": true, "about": its line, or why nothing opens }, and in "passed_over" the words of each backend
 * that is not tried since CELLGRAD_BACKEND is unset. */
json_t *inspect_default(void);
/* Whether a backend or device opens, or a list of them: { "opens", "about", "devices": [[name, line]] }: the devices are those of
 * the backend, where it opens; and "passed_over" with the words of a backend that is not tried when it is not named. */
json_t *inspect_why(const char *where);

/* The k-th built-in cell, without its options and then with all of them; 0 past the last. */
struct inspect_cell { const char *cell; char options[CG_OPTIONS_MAX * (CG_NAME_MAX + 1)]; };
int inspect_find_cell(int k, struct inspect_cell *);
/* The cell's name in "networks". */
enum { INSPECT_KEY = sizeof(struct inspect_cell) + CG_NAME_MAX };
const char *inspect_key(const struct inspect_cell *, char key[INSPECT_KEY]);

#endif
