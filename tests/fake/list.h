/* SPDX-License-Identifier: Apache-2.0 */
/* The backends of a test: one that fails on request, one whose work runs late, and the cpu behind both. */
CG_BACKEND(faulty)
CG_BACKEND(late)
CG_BACKEND(cpu)
