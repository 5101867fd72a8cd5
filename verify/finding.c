/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats the finding of a trial.
 */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/cellgrad.h"
#include "verify/finding.h"

int finding_format(struct finding *f, int kind, const char *format, ...)
{
	va_list list;

	f->kind = kind;
	va_start(list, format);
	vsnprintf(f->text, sizeof f->text, format, list);
	va_end(list);
	return CG_OK;
}
