/* SPDX-License-Identifier: Apache-2.0 */
/* Four symbols of LLVM, as a library with an LLVM of its own, such as TensorFlow's or PyTorch's, shows them to all libraries loaded
 * later. An OpenCL driver that also has an LLVM may bind to the four symbols here instead of its own; each symbol is a function that
 * aborts. */
#include <stdlib.h>

#define SHOWN(name) void name(void); void name(void) { abort(); }
SHOWN(_ZN4llvm2cl6Option11addArgumentEv)
SHOWN(_ZN4llvm2cl18getGeneralCategoryEv)
SHOWN(_ZNK4llvm17ManagedStaticBase21RegisterManagedStaticEPFPvvEPFvS1_E)
SHOWN(_ZN4llvm11LLVMContextC1Ev)
