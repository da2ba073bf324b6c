// SPDX-License-Identifier: Apache-2.0
/* nvtx_abi.c -- asserts, while it is compiled, that abi/nvtx.h is NVTX's own ABI. It is built wherever
 * a toolkit with NVTX is installed, and has nothing to run. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtMem.h>

#include "abi/nvtx.h"

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)
#define SAME_PLACE(type, member, theirs, their_member)                                             \
    SAME(offsetof(type, member), offsetof(theirs, their_member));                                  \
    SAME(sizeof(((type *)NULL)->member), sizeof(((theirs *)NULL)->their_member))

SAME(TN_NVTX_VERSION, NVTX_VERSION);
SAME(TN_NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(TN_NVTX_TABLE_VERSION, NVTX_ETID_VERSIONINFO);
SAME(TN_NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(TN_NVTX_MODULE_CUDA, NVTX_CB_MODULE_CUDA);
SAME(TN_NVTX_MODULE_OPENCL, NVTX_CB_MODULE_OPENCL);
SAME(TN_NVTX_MODULE_RUNTIME, NVTX_CB_MODULE_CUDART);
SAME(TN_NVTX_MODULE_DOMAINS, NVTX_CB_MODULE_CORE2);
SAME(TN_NVTX_MODULE_SYNC, NVTX_CB_MODULE_SYNC);
SAME(TN_NVTX_CORE_FUNCTIONS, NVTX_CBID_CORE_SIZE);
SAME(TN_NVTX_CUDA_FUNCTIONS, NVTX_CBID_CUDA_SIZE);
SAME(TN_NVTX_OPENCL_FUNCTIONS, NVTX_CBID_OPENCL_SIZE);
SAME(TN_NVTX_RUNTIME_FUNCTIONS, NVTX_CBID_CUDART_SIZE);
SAME(TN_NVTX_DOMAIN_FUNCTIONS, NVTX_CBID_CORE2_SIZE);
SAME(TN_NVTX_SYNC_FUNCTIONS, NVTX_CBID_SYNC_SIZE);
SAME(TN_NVTX_CUDA_NAME_STREAM, NVTX_CBID_CUDA_NameCuStreamA);
SAME(TN_NVTX_DOMAIN_RANGE_PUSH, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(TN_NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(TN_NVTX_DOMAIN_CREATE, NVTX_CBID_CORE2_DomainCreateA);
SAME(TN_NVTX_DOMAIN_DESTROY, NVTX_CBID_CORE2_DomainDestroy);
SAME(TN_NVTX_DOMAIN_INITIALIZE, NVTX_CBID_CORE2_Initialize);
SAME(TN_NVTX_MEMORY_MODULE, NVTX_EXT_MODULEID_MEM);
SAME(TN_NVTX_MEMORY_COMPATIBLE, NVTX_EXT_COMPATID_MEM);
SAME(TN_NVTX_MEMORY_FUNCTIONS, NVTX_EXT_MEM_SLOT_COUNT);
SAME(TN_NVTX_HEAP_REGISTER, NVTX3EXT_CBID_nvtxMemHeapRegister);
SAME(TN_NVTX_HEAP_UNREGISTER, NVTX3EXT_CBID_nvtxMemHeapUnregister);
SAME(TN_NVTX_REGIONS_REGISTER, NVTX3EXT_CBID_nvtxMemRegionsRegister);
SAME(TN_NVTX_REGIONS_UNREGISTER, NVTX3EXT_CBID_nvtxMemRegionsUnregister);
SAME(TN_NVTX_REGIONS_NAME, NVTX3EXT_CBID_nvtxMemRegionsName);
SAME(TN_NVTX_COUNTERS_MODULE, NVTX_EXT_COUNTERS_MODULEID);
SAME(TN_NVTX_COUNTERS_COMPATIBLE, NVTX_EXT_COUNTERS_COMPATID);
SAME(TN_NVTX_COUNTERS_FUNCTIONS, NVTX_EXT_COUNTERS_SLOT_COUNT);
SAME(TN_NVTX_COUNTER_REGISTER, NVTX3EXT_CBID_nvtxCounterRegister);
SAME(TN_NVTX_COUNTER_SAMPLE, NVTX3EXT_CBID_nvtxCounterSampleInt64);
SAME(TN_NVTX_SCHEMA_INT64, NVTX_PAYLOAD_ENTRY_TYPE_INT64);
SAME(TN_NVTX_SCOPE_PROCESS, NVTX_SCOPE_CURRENT_SW_PROCESS);
SAME(TN_NVTX_EVENT_VERSION, NVTX_VERSION);
SAME(TN_NVTX_USAGE_SUB_ALLOCATOR, NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
SAME(TN_NVTX_TYPE_VIRTUAL_ADDRESS, NVTX_MEM_TYPE_VIRTUAL_ADDRESS);
SAME(TN_NVTX_REFERENCE_POINTER, NVTX_MEM_REGION_REF_TYPE_POINTER);
SAME(TN_NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);

SAME(sizeof(tn_nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME_PLACE(tn_nvtx_callbacks, bytes, NvtxExportTableCallbacks, struct_size);
SAME_PLACE(tn_nvtx_callbacks, get, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME(sizeof(tn_nvtx_version), sizeof(NvtxExportTableVersionInfo));
SAME_PLACE(tn_nvtx_version, version, NvtxExportTableVersionInfo, version);
SAME_PLACE(tn_nvtx_version, set_tool_version, NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
SAME(sizeof(tn_nvtx_functions), sizeof(nvtxExtModuleSegment_t));
SAME_PLACE(tn_nvtx_functions, id, nvtxExtModuleSegment_t, segmentId);
SAME_PLACE(tn_nvtx_functions, count, nvtxExtModuleSegment_t, slotCount);
SAME_PLACE(tn_nvtx_functions, functions, nvtxExtModuleSegment_t, functionSlots);
SAME(sizeof(tn_nvtx_extension), sizeof(nvtxExtModuleInfo_t));
SAME_PLACE(tn_nvtx_extension, nvtx_version, nvtxExtModuleInfo_t, nvtxVer);
SAME_PLACE(tn_nvtx_extension, bytes, nvtxExtModuleInfo_t, structSize);
SAME_PLACE(tn_nvtx_extension, module, nvtxExtModuleInfo_t, moduleId);
SAME_PLACE(tn_nvtx_extension, compatible, nvtxExtModuleInfo_t, compatId);
SAME_PLACE(tn_nvtx_extension, part_count, nvtxExtModuleInfo_t, segmentsCount);
SAME_PLACE(tn_nvtx_extension, parts, nvtxExtModuleInfo_t, segments);
SAME_PLACE(tn_nvtx_extension, get_export, nvtxExtModuleInfo_t, getExportFunction);
SAME_PLACE(tn_nvtx_extension, private_info, nvtxExtModuleInfo_t, extInfo);
SAME(sizeof(tn_nvtx_addresses), sizeof(nvtxMemVirtualRangeDesc_t));
SAME_PLACE(tn_nvtx_addresses, bytes, nvtxMemVirtualRangeDesc_t, size);
SAME_PLACE(tn_nvtx_addresses, base, nvtxMemVirtualRangeDesc_t, ptr);
SAME(sizeof(tn_nvtx_event), sizeof(nvtxEventAttributes_t));
SAME_PLACE(tn_nvtx_event, version, nvtxEventAttributes_t, version);
SAME_PLACE(tn_nvtx_event, bytes, nvtxEventAttributes_t, size);
SAME_PLACE(tn_nvtx_event, payload, nvtxEventAttributes_t, payload);
SAME_PLACE(tn_nvtx_event, message_type, nvtxEventAttributes_t, messageType);
SAME_PLACE(tn_nvtx_event, message, nvtxEventAttributes_t, message);
SAME(sizeof(tn_nvtx_counter), sizeof(nvtxCounterAttr_t));
SAME_PLACE(tn_nvtx_counter, bytes, nvtxCounterAttr_t, structSize);
SAME_PLACE(tn_nvtx_counter, schema, nvtxCounterAttr_t, schemaId);
SAME_PLACE(tn_nvtx_counter, name, nvtxCounterAttr_t, name);
SAME_PLACE(tn_nvtx_counter, description, nvtxCounterAttr_t, description);
SAME_PLACE(tn_nvtx_counter, scope, nvtxCounterAttr_t, scopeId);
SAME_PLACE(tn_nvtx_counter, semantics, nvtxCounterAttr_t, semantics);
SAME_PLACE(tn_nvtx_counter, counter, nvtxCounterAttr_t, counterId);
SAME(sizeof(tn_nvtx_heap), sizeof(nvtxMemHeapDesc_t));
SAME_PLACE(tn_nvtx_heap, compatible, nvtxMemHeapDesc_t, extCompatID);
SAME_PLACE(tn_nvtx_heap, bytes, nvtxMemHeapDesc_t, structSize);
SAME_PLACE(tn_nvtx_heap, usage, nvtxMemHeapDesc_t, usage);
SAME_PLACE(tn_nvtx_heap, type, nvtxMemHeapDesc_t, type);
SAME_PLACE(tn_nvtx_heap, specific_bytes, nvtxMemHeapDesc_t, typeSpecificDescSize);
SAME_PLACE(tn_nvtx_heap, specific, nvtxMemHeapDesc_t, typeSpecificDesc);
SAME_PLACE(tn_nvtx_heap, message_type, nvtxMemHeapDesc_t, messageType);
SAME_PLACE(tn_nvtx_heap, message, nvtxMemHeapDesc_t, message);
SAME(sizeof(tn_nvtx_regions), sizeof(nvtxMemRegionsRegisterBatch_t));
SAME_PLACE(tn_nvtx_regions, bytes, nvtxMemRegionsRegisterBatch_t, structSize);
SAME_PLACE(tn_nvtx_regions, type, nvtxMemRegionsRegisterBatch_t, regionType);
SAME_PLACE(tn_nvtx_regions, heap, nvtxMemRegionsRegisterBatch_t, heap);
SAME_PLACE(tn_nvtx_regions, count, nvtxMemRegionsRegisterBatch_t, regionCount);
SAME_PLACE(tn_nvtx_regions, element_bytes, nvtxMemRegionsRegisterBatch_t, regionDescElementSize);
SAME_PLACE(tn_nvtx_regions, elements, nvtxMemRegionsRegisterBatch_t, regionDescElements);
SAME_PLACE(tn_nvtx_regions, handles, nvtxMemRegionsRegisterBatch_t, regionHandleElementsOut);
SAME(sizeof(tn_nvtx_region_ref), sizeof(nvtxMemRegionRef_t));
SAME(sizeof(tn_nvtx_ended_regions), sizeof(nvtxMemRegionsUnregisterBatch_t));
SAME_PLACE(tn_nvtx_ended_regions, bytes, nvtxMemRegionsUnregisterBatch_t, structSize);
SAME_PLACE(tn_nvtx_ended_regions, reference_type, nvtxMemRegionsUnregisterBatch_t, refType);
SAME_PLACE(tn_nvtx_ended_regions, count, nvtxMemRegionsUnregisterBatch_t, refCount);
SAME_PLACE(tn_nvtx_ended_regions, element_bytes, nvtxMemRegionsUnregisterBatch_t, refElementSize);
SAME_PLACE(tn_nvtx_ended_regions, elements, nvtxMemRegionsUnregisterBatch_t, refElements);
SAME(sizeof(tn_nvtx_region_name), sizeof(nvtxMemRegionNameDesc_t));
SAME_PLACE(tn_nvtx_region_name, region, nvtxMemRegionNameDesc_t, region);
SAME_PLACE(tn_nvtx_region_name, name, nvtxMemRegionNameDesc_t, name);
SAME(sizeof(tn_nvtx_region_names), sizeof(nvtxMemRegionsNameBatch_t));
SAME_PLACE(tn_nvtx_region_names, count, nvtxMemRegionsNameBatch_t, regionCount);
SAME_PLACE(tn_nvtx_region_names, elements, nvtxMemRegionsNameBatch_t, regionElements);
