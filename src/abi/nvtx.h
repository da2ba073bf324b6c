// SPDX-License-Identifier: Apache-2.0
/* nvtx.h -- the part of the NVTX binary interface that Tarn uses.
 *
 * NVTX has no library of its own: a program has the tables, and a tool's library fills them. The
 * tool names its library in NVTX_INJECTION64_PATH. tests/abi/nvtx_abi.c asserts, wherever a toolkit
 * is installed, that every value, size and offset here equals the toolkit's.
 *
 * The memory extension describes heaps, and regions of them that may be used. */
#ifndef TARN_ABI_NVTX_H
#define TARN_ABI_NVTX_H

#include <stddef.h>
#include <stdint.h>

#define TN_NVTX_PATH_VARIABLE "NVTX_INJECTION64_PATH"
#define TN_NVTX_CORE_ENTRY "InitializeInjectionNvtx2"
#define TN_NVTX_EXTENSION_ENTRY "InitializeInjectionNvtxExtension"

enum {
    TN_NVTX_VERSION = 3,
    /* Tables that a tool asks for. */
    TN_NVTX_TABLE_CALLBACKS = 1,
    TN_NVTX_TABLE_VERSION = 3,
    /* Modules of the callbacks, and the places of functions in them. */
    TN_NVTX_MODULE_CORE = 1,
    TN_NVTX_MODULE_CUDA = 2,
    TN_NVTX_MODULE_OPENCL = 3,
    TN_NVTX_MODULE_RUNTIME = 4,
    TN_NVTX_MODULE_DOMAINS = 5,
    TN_NVTX_MODULE_SYNC = 6,
    TN_NVTX_CORE_FUNCTIONS = 16,
    TN_NVTX_CUDA_FUNCTIONS = 9,
    TN_NVTX_OPENCL_FUNCTIONS = 15,
    TN_NVTX_RUNTIME_FUNCTIONS = 7,
    TN_NVTX_DOMAIN_FUNCTIONS = 16,
    TN_NVTX_SYNC_FUNCTIONS = 7,
    TN_NVTX_CUDA_NAME_STREAM = 5,
    TN_NVTX_DOMAIN_RANGE_PUSH = 4,
    TN_NVTX_DOMAIN_RANGE_POP = 5,
    TN_NVTX_DOMAIN_CREATE = 12,
    TN_NVTX_DOMAIN_DESTROY = 14,
    TN_NVTX_DOMAIN_INITIALIZE = 15,
    /* The memory extension. */
    TN_NVTX_MEMORY_MODULE = 1,
    TN_NVTX_MEMORY_COMPATIBLE = 0x0102,
    TN_NVTX_MEMORY_FUNCTIONS = 63,
    TN_NVTX_HEAP_REGISTER = 0,
    TN_NVTX_HEAP_UNREGISTER = 1,
    TN_NVTX_REGIONS_REGISTER = 3,
    TN_NVTX_REGIONS_UNREGISTER = 5,
    TN_NVTX_REGIONS_NAME = 6,
    /* The extension of counters. */
    TN_NVTX_COUNTERS_MODULE = 4,
    TN_NVTX_COUNTERS_COMPATIBLE = 0x0102,
    TN_NVTX_COUNTERS_FUNCTIONS = 63,
    TN_NVTX_COUNTER_REGISTER = 0,
    TN_NVTX_COUNTER_SAMPLE = 1, /* an integer */
    TN_NVTX_SCHEMA_INT64 = 17,
    TN_NVTX_SCOPE_PROCESS = 21,
    TN_NVTX_EVENT_VERSION = 3,
    TN_NVTX_USAGE_SUB_ALLOCATOR = 1,
    TN_NVTX_TYPE_VIRTUAL_ADDRESS = 1,
    TN_NVTX_REFERENCE_POINTER = 1,
    TN_NVTX_MESSAGE_ASCII = 1,
};

typedef void (*tn_nvtx_function)(void);

/* What a tool is given for its core functions. */
typedef struct tn_nvtx_callbacks {
    size_t bytes;
    int (*get)(int module, tn_nvtx_function ***table, unsigned *count);
} tn_nvtx_callbacks;

typedef struct tn_nvtx_version {
    size_t bytes;
    uint32_t version;
    uint32_t reserved;
    void (*set_tool_version)(uint32_t version);
} tn_nvtx_version;

typedef const void *(*tn_nvtx_get_table)(uint32_t table);
typedef int (*tn_nvtx_core_entry)(tn_nvtx_get_table get_table);

/* What a tool is given for the functions of an extension. */
typedef struct tn_nvtx_functions {
    size_t id;
    size_t count;
    intptr_t *functions;
} tn_nvtx_functions;

typedef struct tn_nvtx_extension {
    uint16_t nvtx_version;
    uint16_t bytes;
    uint16_t module;
    uint16_t compatible;
    size_t part_count;
    tn_nvtx_functions *parts;
    intptr_t (*get_export)(uint32_t which);
    const void *private_info;
} tn_nvtx_extension;

typedef int (*tn_nvtx_extension_entry)(tn_nvtx_extension *extension);

typedef struct tn_nvtx_addresses {
    size_t bytes;
    const void *base;
} tn_nvtx_addresses;

typedef union tn_nvtx_message {
    const char *ascii;
    void *registered;
} tn_nvtx_message;

typedef struct tn_nvtx_event {
    uint16_t version;
    uint16_t bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    tn_nvtx_message message;
} tn_nvtx_event;

typedef struct tn_nvtx_counter {
    size_t bytes;
    uint64_t schema;
    const char *name;
    const char *description;
    uint64_t scope;
    const void *semantics;
    uint64_t counter; /* 0: the tool chooses */
} tn_nvtx_counter;

typedef struct tn_nvtx_heap {
    uint16_t compatible;
    uint16_t bytes;
    uint32_t reserved;
    uint32_t usage;
    uint32_t type;
    size_t specific_bytes;
    const void *specific;
    uint32_t category;
    uint32_t message_type;
    tn_nvtx_message message;
} tn_nvtx_heap;

typedef struct tn_nvtx_regions {
    uint16_t compatible;
    uint16_t bytes;
    uint32_t type;
    void *heap;
    size_t count;
    size_t element_bytes;
    const void *elements;
    void **handles;
} tn_nvtx_regions;

typedef union tn_nvtx_region_ref {
    const void *pointer;
    void *handle;
} tn_nvtx_region_ref;

typedef struct tn_nvtx_ended_regions {
    uint16_t compatible;
    uint16_t bytes;
    uint32_t reference_type;
    size_t count;
    size_t element_bytes;
    const tn_nvtx_region_ref *elements;
} tn_nvtx_ended_regions;

typedef struct tn_nvtx_region_name {
    uint32_t reference_type;
    uint32_t message_type;
    tn_nvtx_region_ref region;
    tn_nvtx_message name;
    uint32_t category;
    uint32_t reserved;
} tn_nvtx_region_name;

typedef struct tn_nvtx_region_names {
    uint16_t compatible;
    uint16_t bytes;
    uint32_t reserved;
    size_t count;
    size_t element_bytes;
    const tn_nvtx_region_name *elements;
    size_t reserved_too;
} tn_nvtx_region_names;

typedef void *(*tn_nvtx_domain_create)(const char *name);
typedef void (*tn_nvtx_domain_destroy)(void *domain);
typedef void (*tn_nvtx_initialize)(const void *reserved);
typedef int (*tn_nvtx_range_push)(void *domain, const tn_nvtx_event *event);
typedef int (*tn_nvtx_range_pop)(void *domain);
typedef uint64_t (*tn_nvtx_counter_register)(void *domain, const tn_nvtx_counter *counter);
typedef void (*tn_nvtx_counter_sample)(void *domain, uint64_t counter, int64_t value);
typedef void *(*tn_nvtx_heap_register)(void *domain, const tn_nvtx_heap *heap);
typedef void (*tn_nvtx_heap_unregister)(void *domain, void *heap);
typedef void (*tn_nvtx_regions_register)(void *domain, const tn_nvtx_regions *regions);
typedef void (*tn_nvtx_regions_unregister)(void *domain, const tn_nvtx_ended_regions *regions);
typedef void (*tn_nvtx_regions_name)(void *domain, const tn_nvtx_region_names *names);

#endif
