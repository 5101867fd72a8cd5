/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of `cellgrad bench`: the machine, with variables of OpenBLAS that are set, then a row or a JSON object for each
 * problem.
 */
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/bench/bench.h"
#include "command/output.h"

static const char warning[] =
	"OPENBLAS_ variables are set, and may choose slower products than this processor has, as OPENBLAS_CORETYPE=Haswell may; "
	"unset them to measure what others will see";

/* The k-th environment variable of OpenBLAS; NULL: there is none, or OpenBLAS does not compute the products. */
static const char *openblas_variable(const struct cg_context *context, int k)
{
	return strstr(cg_describe(context), "products OpenBLAS") ? cg_environment_entry("OPENBLAS_", k) : NULL;
}

static const char *unit(double bytes, char text[32])
{
	int mebi = bytes >= 1 << 20;

	snprintf(text, 32, "%.0f %s", bytes / (mebi ? 1 << 20 : 1 << 10), mebi ? "MiB" : "KiB");
	return text;
}

/* A number for JSON that may be unknown: 0, not known, becomes null. */
static json_t *known(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static int head_json(const struct cg_context *context, const struct roofs *roofs, const char *const *given)
{
	json_t *copy = json_array(), *set = json_object(), *attributes = json_array();
	const char *entry;
	char name[64];
	int k = 0;

	for (; (entry = openblas_variable(context, k)); k++) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
		json_object_set_new(set, name, json_string(strchr(entry, '=') ? strchr(entry, '=') + 1 : ""));
	}
	for (k = 0; given[k]; k++)
		json_array_append_new(attributes, json_string(given[k]));
	for (k = 0; k < ROOF_COPIES; k++)
		json_array_append_new(copy, json_pack("{s:I, s:f}", "bytes", (json_int_t)roofs->copy[k].bytes,
		                                      "gbytes", roofs->copy[k].gbytes));
	return print_json(json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
	                            "kind", "roofs", "version", cg_version(), "backend", cg_inspect_context(context),
	                            "device", cg_describe(context), "threads", roofs->threads,
	                            "isa", roofs->isa ? json_string(roofs->isa) : json_null(),
	                            "f32_gflops", known(roofs->f32), "f64_gflops", known(roofs->f64), "bf16_gflops", known(roofs->bf16),
	                            "copy", copy,
	                            "attributes", attributes,
	                            "warning", json_object_size(set) ? json_string(warning) : json_null(),
	                            "environment", set));
}

int report_head(const struct cg_context *context, const struct roofs *roofs, const char *const *given, int json)
{
	const char *entry;
	char bytes[32];
	int k, any = 0;

	if (json)
		return head_json(context, roofs, given);
	printf("cellgrad %s\n", cg_version());
	print_plain(stdout, cg_describe(context));
	putchar('\n');
	for (k = 0; (entry = openblas_variable(context, k)); k++, any = 1) {
		print_plain(stdout, entry);
		putchar('\n');
	}
	if (any)
		printf("warning: %s\n", warning);
	if (roofs->isa)
		printf("roofs of %d thread%s: multiply and add %.0f GFLOP/s in f32, %.0f in f64, %.0f in bf16 (%s); copy ",
		       roofs->threads, roofs->threads == 1 ? "" : "s", roofs->f32, roofs->f64, roofs->bf16, roofs->isa);
	else
		printf("roof of the device: its own copy ");
	for (k = 0; k < ROOF_COPIES; k++)
		printf("%s%.1f%s in %s", k ? ", " : "", roofs->copy[k].gbytes, k ? "" : " GB/s", unit(roofs->copy[k].bytes, bytes));
	putchar('\n');
	for (k = 0; given[k]; k++)
		printf("%s%s", k ? " " : "attributes: ", given[k]);
	printf("%s\n", k ? "\n" : "");
	return CG_OK;
}

static const char *bound(const struct result *r)
{
	return r->by_products ? "products" : "copy";
}

int report_json(const struct cg_context *context, const struct roofs *roofs, const struct result *r)
{
	const struct problem *p = r->problem;
	const char *name = problem_name(p);
	char given[512];

	problem_line(p, given, sizeof given);
	return print_json(json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:i, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:I, "
	                            "s:I, s:f, s:f, s:o, s:o, s:o, s:s}",
	                            "kind", "problem", "op", name, "mode", problem_mode(p), "dtype", cg_dtype_name(problem_dtype(p)),
	                            "T", (json_int_t)problem_get_size(p, "T"), "B", (json_int_t)problem_get_size(p, "B"),
	                            "I", (json_int_t)problem_get_size(p, "I"), "H", (json_int_t)problem_get_size(p, "U"),
	                            "layers", (json_int_t)problem_get_size(p, "L"), "valid", p->valid, "threads", roofs->threads, "backend", cg_inspect_context(context),
	                            "what", bench_whats[p->what - 1], "reps", (int)r->reps, "calls", (int)r->calls,
	                            "min_ms", r->least, "median_ms", r->median, "spread_ms", r->spread,
	                            "flops", (json_int_t)r->flops, "bytes", (json_int_t)r->bytes,
	                            "gflops", r->gflops, "gbytes", r->gbytes, "copy_gbytes", known(r->copy),
	                            "bound", r->share > 0 ? json_string(bound(r)) : json_null(),
	                            "share", known(r->share), "problem", given));
}

int report_table(const struct result *results, size_t n)
{
	int copies = n && results->copy > 0;     /* the table for a device has a column for its copies */
	struct print_table t = { .columns = copies ? "llllrrrrrrrrrrrrl" : "llllrrrrrrrrrrrl" };

	if (n)
		print_row(&t, "op", "mode", "what", "dtype", "T", "L", "B", "I", "H", "min ms", "median", "spread", "GFLOP/s", "GB/s", NULL);
	if (copies)
		print_cell(&t, "copy");
	if (n)
		print_row(&t, "of roof", "", NULL);
	for (const struct result *r = results; r < results + n; r++) {
		const struct problem *p = r->problem;

		print_row(&t, problem_name(p), problem_mode(p), bench_whats[p->what - 1], cg_dtype_name(problem_dtype(p)), NULL);
		print_cell(&t, "%lld", (long long)problem_get_size(p, "T"));
		print_cell(&t, "%lld", (long long)problem_get_size(p, "L"));
		print_cell(&t, "%lld", (long long)problem_get_size(p, "B"));
		print_cell(&t, "%lld", (long long)problem_get_size(p, "I"));
		print_cell(&t, "%lld", (long long)problem_get_size(p, "U"));
		print_cell(&t, "%.5f", r->least);
		print_cell(&t, "%.5f", r->median);
		print_cell(&t, "%.5f", r->spread);
		if (r->flops > 0)
			print_cell(&t, "%.1f", r->gflops);
		else
			print_cell(&t, "-");
		print_cell(&t, "%.1f", r->gbytes);
		if (copies)
			print_cell(&t, "%.1f", r->copy);
		if (r->share > 0)
			print_cell(&t, "%.0f %%", 100 * r->share);
		else
			print_cell(&t, "-");
		print_cell(&t, "%s", r->share > 0 ? bound(r) : "");
	}
	return print_all_rows(&t, "");
}
