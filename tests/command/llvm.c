/* SPDX-License-Identifier: Apache-2.0 */
/* The symbols that a library with an LLVM of its own, such as TensorFlow's or PyTorch's, shows to all libraries loaded later: a
 * driver that also has an LLVM binds to these instead of its own, and ends the process. */
#include <stdlib.h>

#define SHOWN(name) void name(void); void name(void) { abort(); }
SHOWN(_ZN4llvm2cl6Option11addArgumentEv)
SHOWN(_ZN4llvm2cl18getGeneralCategoryEv)
SHOWN(_ZNK4llvm17ManagedStaticBase21RegisterManagedStaticEPFPvvEPFvS1_E)
SHOWN(_ZN4llvm11LLVMContextC1Ev)
