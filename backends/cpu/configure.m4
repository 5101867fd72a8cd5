# SPDX-License-Identifier: Apache-2.0
# Chooses the instruction sets for which the cpu backend's kernels are compiled, and whether the backend looks for OpenBLAS.

# CG_ISA(NAME, CPUS, FLAGS): compiles kernels for instruction set NAME if the processor is one of CPUS and the compiler accepts FLAGS.
# Each instruction set has a row in isa.c; each but neon, which is compiled as baseline, has a stanza in local.mk; each but avx512bf16,
# amxbf16 and neon has a line CG_ISA here.
m4_define([CG_ISA], [AS_CASE([$cg_cpu], [$2], [m4_ifval([$3], [CG_CFLAGS([$3], [cg_isa=$1], [cg_isa=])], [cg_isa=$1])
	AS_IF([test -n "$cg_isa"], [
		isa_names="$isa_names, $1" isa_libraries="$isa_libraries backends/cpu/lib$1.la backends/cpu/lib$1_product.la"
		AC_DEFINE([CG_ISA_]m4_toupper([$1]), [1], [Kernels for $1 are compiled.])])])
	AC_SUBST([isa_$1], ["$3"])])

# cg_cpu is the host's processor, or i686 if the compiler of a 64-bit x86 machine makes 32-bit code.
cg_cpu=$host_cpu
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#ifndef __i386__
#error
#endif]])], [cg_cpu=i686])

# Without SSE2 a 32-bit x86 processor would compute in the 80-bit registers of the x87, and round twice.
AS_CASE([$cg_cpu], [i?86], [CG_CFLAGS([-msse2 -mfpmath=sse], [isa_all='-msse2 -mfpmath=sse'],
	[AC_MSG_ERROR([SSE2 is needed on a 32-bit x86: x87 does not give the promised bits])])])
AC_SUBST([isa_all])

CG_ISA([avx512], [x86_64], [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512 -mprfchw])
# Instruction set avx512bf16 has its own code for products of bf16 alone; the rest of its code is that of avx512.
AS_CASE([$isa_names], [*avx512*], [CG_CFLAGS([$isa_avx512 -mavx512bf16], [
	isa_names=", avx512bf16$isa_names" isa_libraries="$isa_libraries backends/cpu/libavx512bf16_product.la"
	AC_DEFINE([CG_ISA_AVX512BF16], [1], [Products of bf16 for avx512bf16 are compiled.])])])
# Instruction set amxbf16 computes products of bf16 by AMX, whose registers a process must request from Linux.
AS_CASE([$host_os:$isa_names], [linux*avx512bf16*], [CG_CFLAGS([$isa_avx512 -mavx512bf16 -mamx-tile -mamx-bf16], [
	isa_names=", amxbf16$isa_names" isa_libraries="$isa_libraries backends/cpu/libamxbf16_product.la"
	AC_DEFINE([CG_ISA_AMXBF16], [1], [Products of bf16 for amxbf16 are compiled.])])])
CG_ISA([avx2], [x86_64|i?86], [-mavx2 -mfma -mf16c])
# isa_fused, for a test: the flags with which the compiler fuses multiplications and additions on x86; on other processors it fuses always
# or never.
AS_CASE([$isa_names], [*avx2*], [isa_fused=$isa_avx2])
AC_SUBST([isa_fused])
# Every aarch64 processor has NEON and fused multiply-adds, so the instruction set `baseline` is NEON there, and has the name neon, too.
AS_CASE([$cg_cpu], [aarch64*], [isa_names="$isa_names, neon"
	AC_DEFINE([CG_ISA_NEON], [1], [The baseline has NEON.])])
CG_ISA([baseline], [*], [])
AC_SUBST([isa_libraries])

# These flags keep the vectorisation of kernels on, even if CFLAGS of the user has an -O2 behind the -O3 of the build.
CG_CFLAGS([-fvect-cost-model=dynamic], [vectorize='-ftree-vectorize -fvect-cost-model=dynamic'])
# Jump threading turns selections into branches, and gcc does not vectorise a loop with branches.
CG_CFLAGS([-fno-thread-jumps], [vectorize="$vectorize -fno-thread-jumps"])
AC_SUBST([vectorize])
CG_CFLAGS([-ffp-contract=fast], [fused=-ffp-contract=fast])
AC_SUBST([fused])

AC_ARG_WITH([openblas], [AS_HELP_STRING([--without-openblas], [do not look for OpenBLAS at run time; use cellgrad's own products])])
backend_switches="$backend_switches --with-openblas=$with_openblas"
AS_IF([test "x$with_openblas" = xno], [blas='our own'], [
	blas='OpenBLAS where found at run time, else our own'
	AC_DEFINE([CG_OPENBLAS], [1], [Look for OpenBLAS at run time.])])
backends="$backends cpu (${isa_names#, })"
