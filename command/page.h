// SPDX-License-Identifier: Apache-2.0
/* page.h -- the files view.html and view.js, as the build puts them into the command. */
#ifndef TARN_COMMAND_PAGE_H
#define TARN_COMMAND_PAGE_H

extern const char page_html[]; /* ends with 0 */
extern const char page_script[];

#endif
