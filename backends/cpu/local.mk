# SPDX-License-Identifier: Apache-2.0
# The cpu backend: files that are compiled once; kernels, which are generated C; and products.  Kernels and products are compiled for each
# instruction set that has kernels, or products, of its own.
noinst_LTLIBRARIES += %D%/libcpu.la $(isa_libraries)
%C%_libcpu_la_SOURCES = \
	%D%/compiled.h %D%/cpu.h %D%/isa.h %D%/openblas.h %D%/processors.h %D%/team.h \
	%D%/cpu.c %D%/scratch.c %D%/launch.c %D%/all_steps.c %D%/gemm_tiles.c %D%/blocked_gemm.c %D%/gather_scatter.c %D%/team.c %D%/processors.c \
	%D%/float_state.c %D%/openblas.c %D%/isa.c
backend_libraries += %D%/libcpu.la $(isa_libraries)

# The files that cellgen writes: in templates/ of the build tree, the kernels of every cell of the list `cells` in templates/local.mk, and
# in f32 of the list `fast_shelf`; in backends/cpu of the build tree, copies of rows, tiles, headers with the vectors and the packing of
# the elements that products multiply (items), the mathematics of the interpreter, and the lists of the compiled cells.  The interpreter and
# the conversions are compiled once for each dtype, too.  The dtypes are those of gen/dtypes.h; the linker reports a dtype that is missing
# in local.mk.
texts = $(cells:.cell=) %D%/rows %D%/strip %D%/convert
kernels = $(texts:=_f16.c) $(texts:=_bf16.c) $(texts:=_f32.c) $(texts:=_f64.c) $(fast_shelf:.cell=_f32.c)
items = %D%/items_f32.h %D%/items_f64.h %D%/items_bf16.h
made_headers = %D%/math_f16.h %D%/math_bf16.h %D%/math_f32.h %D%/math_f64.h %D%/cells.h $(items)
tiles = %D%/tiles_f32.c %D%/tiles_f64.c
made = $(kernels) $(tiles) %D%/tiles_bf16.c $(made_headers)
typed_sources = gen/strip.c %D%/convert.c
CLEANFILES += $(made) %D%/made.stamp
EXTRA_DIST += $(typed_sources)
AM_CPPFLAGS += -I%D%

type_file = sed "s/CG_DTYPE/$$2/g; s,CG_MATH,\"math_$$2.h\","
# The name of a file that cellgen writes gives cellgen's arguments.  A generated file whose text is unchanged keeps its date, so that most
# changes to the generator compile no kernel again.  made.stamp is older than the files that are written with it, so that make does not
# write them again.  The leak sanitizer is off while cellgen runs, since cellgen does not
# free its memory.
make_file = \
	set -- `basename $$file | sed 's/\.[ch]$$//; s/_\([^_]*\)$$/ \1/'` && \
	case $$file in \
	templates/*)      ASAN_OPTIONS=detect_leaks=0 $(cellgen) bundle $$* ;; \
	%D%/strip_*)   $(type_file) $(srcdir)/gen/strip.c ;; \
	%D%/convert_*) $(type_file) $(srcdir)/%D%/convert.c ;; \
	%D%/cells.h)   ASAN_OPTIONS=detect_leaks=0 $(cellgen) cells `echo $(fast_shelf:.cell=) | sed 's,[^ ]*/,,g'` ;; \
	*)                ASAN_OPTIONS=detect_leaks=0 $(cellgen) $$* ;; \
	esac > $$file.tmp && \
	if cmp -s $$file.tmp $$file; then rm $$file.tmp; else mv $$file.tmp $$file; fi
$(made): %D%/made.stamp
	@test -f $@ || { file=$@; $(make_file); }
%D%/made.stamp: $(cellgen_file) $(typed_sources) %D%/local.mk
	$(AM_V_GEN)$(MKDIR_P) %D% templates/cells && echo > $@.tmp && for file in $(made); do $(make_file) || exit 1; done && mv $@.tmp $@
%D%/isa.lo: %D%/cells.h

# The sources and the flags of the library for each instruction set.  configure.m4 chooses the instruction sets.
isa_cflags = $(AM_CFLAGS) -O3 $(vectorize) -fno-math-errno -fno-trapping-math
# Products are right within a bound, not to the bit: their multiplications and additions may be fused.
product_sources = %D%/product.c %D%/panels.c
product_cflags = $(isa_cflags) $(fused)

EXTRA_LTLIBRARIES += %D%/libbaseline.la %D%/libbaseline_product.la
nodist_%C%_libbaseline_la_SOURCES = $(kernels)
%C%_libbaseline_la_CFLAGS = $(isa_cflags) -DCG_ISA=baseline
%C%_libbaseline_product_la_SOURCES = $(product_sources)
nodist_%C%_libbaseline_product_la_SOURCES = $(tiles)
%C%_libbaseline_product_la_CFLAGS = $(product_cflags) -DCG_ISA=baseline

EXTRA_LTLIBRARIES += %D%/libavx2.la %D%/libavx2_product.la
nodist_%C%_libavx2_la_SOURCES = $(kernels)
%C%_libavx2_la_CFLAGS = $(isa_cflags) -DCG_ISA=avx2 $(isa_avx2)
%C%_libavx2_product_la_SOURCES = $(product_sources)
nodist_%C%_libavx2_product_la_SOURCES = $(tiles)
%C%_libavx2_product_la_CFLAGS = $(product_cflags) -DCG_ISA=avx2 $(isa_avx2)

EXTRA_LTLIBRARIES += %D%/libavx512.la %D%/libavx512_product.la
nodist_%C%_libavx512_la_SOURCES = $(kernels)
%C%_libavx512_la_CFLAGS = $(isa_cflags) -DCG_ISA=avx512 $(isa_avx512)
%C%_libavx512_product_la_SOURCES = $(product_sources)
nodist_%C%_libavx512_product_la_SOURCES = $(tiles)
%C%_libavx512_product_la_CFLAGS = $(product_cflags) -DCG_ISA=avx512 $(isa_avx512)

EXTRA_LTLIBRARIES += %D%/libavx512bf16_product.la
%C%_libavx512bf16_product_la_SOURCES = %D%/panels.c
nodist_%C%_libavx512bf16_product_la_SOURCES = %D%/tiles_bf16.c
%C%_libavx512bf16_product_la_CFLAGS = $(product_cflags) -DCG_ISA=avx512bf16 -DCG_PAIRS $(isa_avx512) -mavx512bf16

EXTRA_LTLIBRARIES += %D%/libamxbf16_product.la
%C%_libamxbf16_product_la_SOURCES = %D%/amx_panels.c
nodist_%C%_libamxbf16_product_la_SOURCES = %D%/tiles_bf16.c
%C%_libamxbf16_product_la_CFLAGS = $(product_cflags) -DCG_ISA=amxbf16 $(isa_avx512) -mavx512bf16 -mamx-tile -mamx-bf16

# panels.c, amx_panels.c and product.c include $(items), headers that cellgen writes, so their objects depend on these headers.
%D%/libbaseline_product_la-panels.lo %D%/libavx2_product_la-panels.lo %D%/libavx512_product_la-panels.lo \
%D%/libavx512bf16_product_la-panels.lo %D%/libamxbf16_product_la-amx_panels.lo %D%/libbaseline_product_la-product.lo %D%/libavx2_product_la-product.lo \
%D%/libavx512_product_la-product.lo: $(items)
