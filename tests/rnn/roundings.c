/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of how each route rounds, for the test of the documents: route, dtype and description, with tabs between. */
#include <stdio.h>

#include "runtime/rnn/rnn.h"

int main(void)
{
	const char *const *roundings;
	const char *route;

	for (int k = 0; (route = cg_rnn_route_name(k, &roundings)); k++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			if (roundings[dtype])
				printf("%s\t%s\t%s\n", route, cg_dtype_name(dtype), roundings[dtype]);
	return 0;
}
