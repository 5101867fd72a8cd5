/* SPDX-License-Identifier: Apache-2.0 */
// own_cell.c in C++11: the same cell and the same numbers, with owners that close and failures that are thrown.
#include <cellgrad.h>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

static const char text[] = R"(
cell leaky
gates  a
output h
param  leak = 0.5
c = tanh(a)
h = leak * h_prev + (1 - leak) * c
save c
)";

struct closer {
	void operator()(cg_context *p) const { cg_close(p); }
	void operator()(cg_stream *p) const { cg_stream_close(p); }
	void operator()(cg_cell *p) const { cg_cell_close(p); }
};
template <class T> using owner = std::unique_ptr<T, closer>;

static void check(int status)
{
	if (status)
		throw std::runtime_error(cg_message());
}

// open(&p) fills p: the result owns it.
template <class T, class Open> static owner<T> own(Open open)
{
	T *p = nullptr;
	check(open(&p));
	return owner<T>(p);
}

using row = std::vector<float>;

static cg_arg arg(const char *name, row &r)             // one row, under the kernel's name for it
{
	return { name, { r.data(), 0, r.size() * sizeof r[0], CG_HOST }, int64_t(r.size()), 0 };
}

static void run(cg_stream *stream, const cg_cell *cell, cg_pass pass, std::vector<cg_arg> args)
{
	cg_kernel kernel = { cell, nullptr, 0, pass, CG_F32, CG_POINT };
	check(cg_kernel_run(stream, &kernel, 1, args[0].stride, args.data(), int(args.size())));
}

static void print(const char *name, const row &r)
{
	std::printf("%-7s %9.6f %9.6f %9.6f\n", name, r[0], r[1], r[2]);
}

int main()
try {
	auto context = own<cg_context>([](cg_context **p) { return cg_open(nullptr, p); });
	auto stream = own<cg_stream>([&](cg_stream **p) { return cg_stream_open(context.get(), nullptr, p); });
	auto cell = own<cg_cell>([](cg_cell **p) { return cg_cell_parse(text, "leaky.cell", p); });
	row a = { -1, 0, 2 }, h_prev = { 0.5f, 0.25f, -1 }, c(3), h(3), dh = { 1, 1, 1 }, da(3), dh_prev(3);

	run(stream.get(), cell.get(), CG_FORWARD, { arg("a", a), arg("h_prev", h_prev), arg("c", c), arg("h", h) });
	run(stream.get(), cell.get(), CG_GRAD, { arg("dh", dh), arg("c", c), arg("da", da), arg("dh_prev", dh_prev) });
	print("h", h);
	print("da", da);
	print("dh_prev", dh_prev);
} catch (const std::exception &failure) {
	return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
