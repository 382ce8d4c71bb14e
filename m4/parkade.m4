dnl SPDX-License-Identifier: LGPL-2.1-or-later
dnl SPDX-FileCopyrightText: 2026 The parkade authors
dnl
dnl The configure checks that are parkade's own.

dnl PK_REQUIRE_TARGET
dnl Stops on a target whose objects the library does not know bit by bit. Where
dnl they are known to have no room, on 32-bit ones, the library is built that
dnl replaces nothing (PK_ASIDE).
AC_DEFUN([PK_REQUIRE_TARGET],
[AS_CASE([$host_os],
  [linux*], [],
  [AC_MSG_ERROR([$host_os is not supported: waiting threads sleep on Linux futexes])])

AC_CACHE_CHECK([for the GNU C library 2.31 or newer], [pk_cv_glibc],
  [pk_cv_glibc=no
   AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#include <features.h>
#ifndef __GLIBC__
#error not glibc
#endif
]])], [pk_cv_glibc=old])
   AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#include <features.h>
#if !defined __GLIBC_PREREQ || !__GLIBC_PREREQ (2, 31)
#error older
#endif
]])], [pk_cv_glibc=yes])])
AS_CASE([$pk_cv_glibc],
  [no], [AC_MSG_ERROR([this C library is not supported: the library keeps the mutex of the GNU C library, bit for bit, and no other])],
  [old], [AC_MSG_ERROR([this glibc is not supported: functions that the library replaces are missing before glibc 2.31])])

dnl The list of machines is the library's own.
AC_CACHE_CHECK([what is known of this architecture], [pk_cv_arch],
  [pk_cv_arch=nothing
   pk_save_CPPFLAGS=$CPPFLAGS
   CPPFLAGS="$CPPFLAGS -I$srcdir/lib"
   AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include "base/arch/arch.h"
]])], [pk_cv_arch="its layout"])
   AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include "base/arch/arch.h"
#ifndef PK_ARCH_ASIDE
#error no
#endif
]])], [pk_cv_arch="no room for a queue"])
   CPPFLAGS=$pk_save_CPPFLAGS])
AS_IF([test "$pk_cv_arch" = nothing],
  [AC_MSG_ERROR([$host is not supported: the library shares the bytes of pthread_mutex_t, pthread_cond_t and pthread_rwlock_t with glibc, and on this architecture nobody has looked at them yet; CONTRIBUTING.md, Adding an architecture, says what that takes])])
AM_CONDITIONAL([PK_ASIDE], [test "$pk_cv_arch" != "its layout"])
AM_COND_IF([PK_ASIDE],
  [pk_library_text="stands aside: a program's locks stay glibc's"],
  [pk_library_text="replaces glibc's locks"])
])

dnl PK_CHECK_SYMVER
dnl Can one function be exported both without a version and, by thunks, at
dnl several versions?  That needs the symver attribute (gcc 10) and a linker
dnl that keeps the unversioned symbol.  Without it the library exports the
dnl unversioned symbols alone: every reference still binds to them, only
dnl dlvsym() finds glibc's functions instead of ours.  The probe uses a name
dnl and a node of libc's own: gold fails on such names only.
AC_DEFUN([PK_CHECK_SYMVER],
[AC_CACHE_CHECK([whether symbols can be exported with and without versions],
  [pk_cv_symver],
  [pk_cv_symver=no
   cat >conftest.map.in <<'PK_EOF'
@%:@include "pthread/nodes.h"
PK_FIRST { local: probe_*; };
PK_2 { };
PK_EOF
   cat >conftest.c <<'PK_EOF'
@%:@include "pthread/nodes.h"
@%:@define EXPORT __attribute__ ((visibility ("default")))
@%:@define AT(node) AT_ (node)
@%:@define AT_(node) "pthread_mutex_lock@" @%:@node
EXPORT int pthread_mutex_lock (void) { return 0; }
__attribute__ ((symver (AT (PK_FIRST)), noipa)) EXPORT int probe_1 (void) { return 1; }
__attribute__ ((symver (AT (PK_2)), noipa)) EXPORT int probe_2 (void) { return 2; }
PK_EOF
   AS_IF([AC_TRY_COMMAND([$CC $CPPFLAGS -I$srcdir/lib -E -P -x c conftest.map.in >conftest.map]) &&
          AC_TRY_COMMAND([$CC $CFLAGS $CPPFLAGS $LDFLAGS -I$srcdir/lib -Werror -fPIC -shared -o conftest.so conftest.c -Wl,--version-script=conftest.map >&AS_MESSAGE_LOG_FD 2>&1])],
     [$NM -D conftest.so >conftest.sym 2>&AS_MESSAGE_LOG_FD
      cat conftest.sym >&AS_MESSAGE_LOG_FD
      AS_IF([$GREP 'T pthread_mutex_lock$' conftest.sym >/dev/null &&
             $GREP 'T pthread_mutex_lock@GLIBC_' conftest.sym >/dev/null &&
             $GREP 'T pthread_mutex_lock@PK_2$' conftest.sym >/dev/null],
        [pk_cv_symver=yes])])
   rm -f conftest.map.in conftest.map conftest.c conftest.so conftest.sym])
AS_IF([test "$pk_cv_symver" = yes],
  [AC_DEFINE([HAVE_SYMVER_ATTRIBUTE], [1],
     [Define to 1 if functions can be exported with and without versions.])
   pk_symver_text="exported beside the unversioned ones"],
  [pk_symver_text="none (dlvsym will find glibc's functions)"])
])
