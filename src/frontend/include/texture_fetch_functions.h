// SPDX-License-Identifier: Apache-2.0
/* clang wants this header, which CUDA 13 no longer has. */
