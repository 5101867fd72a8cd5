/* Prints the table of how routes round, for the test of the documents: route, dtype and words, with tabs. */
#include <stdio.h>

#include "runtime/rnn/rnn.h"

int main(void)
{
	for (const struct cg_rounding *r = cg_roundings; r->route; r++)
		printf("%s\t%s\t%s\n", r->route, r->dtype, r->words);
	return 0;
}
