/* SPDX-License-Identifier: Apache-2.0 */
/* The backends of a test: one that fails on request, one that runs late, and the one behind both. */
CG_BACKEND(faulty)
CG_BACKEND(late)
CG_BACKEND(cpu)
