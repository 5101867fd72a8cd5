/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes devices and libraries as JSON. Drivers are queried in child processes (child_process.h); a driver that ends its process
 * becomes one entry of the result.
 */
#ifndef INSPECT_JSON_H
#define INSPECT_JSON_H

#include <jansson.h>

#include "runtime/device/inspect.h"

/* Every device: [{ "name": "cuda:0", "opens": true, "about": cg_describe's line, or why the device does not open, "ops": { name:
 * [dtype] }, "networks": { "lstm peephole": { dtype: route } }, "parts": the device's line in the backend's list }]. NULL: no memory. */
json_t *inspect_devices(void);
/* The device that cg_open(NULL) chooses: { "opens": true, "about": its line, or why none opens }, and in "passed_over", if
 * CELLGRAD_BACKEND is unset, the reason for each backend that cg_open passes over without loading its driver. */
json_t *inspect_default(void);
/* Whether a backend or a device opens, or any of a list of backends and devices: { "opens", "about", "devices": [[name, line]] }, where the
 * devices are those of the backend; and "passed_over", the message of a backend that cg_open does not try unless it is named. */
json_t *inspect_why(const char *where);

/* Finds the k-th kind of network for which routes are shown: every built-in cell makes one kind without options and, if it has options, one
 * with all of them. Returns 0 where there are fewer kinds. */
struct inspect_cell { const char *cell; char options[CG_OPTIONS_MAX * (CG_NAME_MAX + 1)]; };
int inspect_find_cell(int k, struct inspect_cell *);
/* The key that a kind of network has in "networks". */
enum { INSPECT_KEY = sizeof(struct inspect_cell) + CG_NAME_MAX };
const char *inspect_key(const struct inspect_cell *, char key[INSPECT_KEY]);

#endif
