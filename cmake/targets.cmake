# SPDX-License-Identifier: Apache-2.0
# quipu::headers: templates to instantiate or extend. quipu::quipu: verbs compiled for the usual types.

add_library(quipu_headers INTERFACE)
add_library(quipu::headers ALIAS quipu_headers)
set_target_properties(quipu_headers PROPERTIES EXPORT_NAME headers)
if(PROJECT_IS_TOP_LEVEL)
  set(system_if_consumed "")
else()
  set(system_if_consumed SYSTEM)
endif()
target_include_directories(
  quipu_headers ${system_if_consumed} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                "$<INSTALL_INTERFACE:include>")
if(QUIPU_STATIC_RUNTIME)
  set(cuda_runtime CUDA::cudart_static)
else()
  set(cuda_runtime CUDA::cudart)
endif()
target_link_libraries(quipu_headers INTERFACE ${cuda_runtime} CUDA::nvtx3 CCCL::CCCL Threads::Threads)
target_compile_features(quipu_headers INTERFACE cxx_std_20)
# CMake before 3.26 does not know C++20 for nvcc and would quietly fall back to C++17.
target_compile_options(quipu_headers INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>")
if(NOT QUIPU_NVTX)
  target_compile_definitions(quipu_headers INTERFACE QUIPU_NVTX=0)
endif()

add_library(quipu_warnings INTERFACE)
target_compile_options(
  quipu_warnings
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>"
            "$<$<AND:$<BOOL:${QUIPU_WARNINGS_AS_ERRORS}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>"
            # Guesses of GCC's about inlined code, often wrong: shown, not fatal. What -Wrestrict says
            # about std::string in GCC 12 is always wrong (GCC bug 105651).
            "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=stringop-overflow>"
            "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=maybe-uninitialized>"
            "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>")

if(QUIPU_SANITIZE)
  # One by one: a comma would end an argument of HOST_LINK.
  set(sanitizers "-fsanitize=address;-fsanitize=undefined;-fno-sanitize-recover=undefined")
  target_compile_options(quipu_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitizers}>")
  target_link_options(quipu_warnings INTERFACE "$<HOST_LINK:${sanitizers}>")
endif()

if(NOT QUIPU_BUILD_LIBRARY)
  return()
endif()

# One short file per verb and element type, so that they compile side by side.
set(quipu_instantiations "")
set(type_f32 float)
set(type_f16 float16)
set(type_bf16 bfloat16)
function(instantiate template operation)
  foreach(element IN LISTS QUIPU_ELEMENTS)
    set(OPERATION ${operation})
    set(ELEMENT ${type_${element}})
    set(file "${PROJECT_BINARY_DIR}/instantiate/${operation}_${element}.cu")
    configure_file("${PROJECT_SOURCE_DIR}/${template}" "${file}" @ONLY)
    list(APPEND quipu_instantiations "${file}")
  endforeach()
  set(quipu_instantiations "${quipu_instantiations}" PARENT_SCOPE)
endfunction()
foreach(operation IN ITEMS aggregate aggregate_backward aggregate_several aggregate_several_backward)
  instantiate(src/reduce/aggregate.cu.in ${operation})
endforeach()
instantiate(src/sparse/spmm.cu.in spmm)
instantiate(src/sparse/sddmm.cu.in sddmm)
foreach(operation IN ITEMS gat_forward gatv2_forward transformer_forward gat_backward gatv2_backward
                           transformer_backward)
  instantiate(src/attention/attention.cu.in ${operation})
endforeach()

add_library(
  quipu
  src/attention/attention_backward_host.cpp
  src/attention/attention_host.cpp
  src/core/buffer.cpp
  src/core/checksum.cpp
  src/core/context.cpp
  src/core/status.cpp
  src/graph/make_graph_device.cu
  src/graph/make_graph_host.cpp
  src/graph/make_schedule_device.cu
  src/graph/move_graph.cpp
  src/graph/normalise.cu
  src/io/edge_list.cpp
  src/io/file.cpp
  src/io/matrix_market.cpp
  src/io/npy.cpp
  src/io/packed_file.cpp
  src/io/packed_layout.cpp
  src/io/synthetic_device.cu
  src/io/synthetic_host.cpp
  src/io/synthetic_plan.cpp
  src/io/synthetic_shapes.cpp
  src/io/write_packed.cpp
  src/pack/bulk_stream.cpp
  src/pack/choose_packing.cpp
  src/pack/device_columns.cpp
  src/pack/invariant_masks.cpp
  src/pack/move_packed.cpp
  src/pack/order_rows.cu
  src/pack/pack_device.cu
  src/pack/pack_host.cpp
  src/pack/packing.cpp
  src/pack/profile_device.cu
  src/pack/profile_host.cpp
  src/pack/profile_sample.cpp
  src/pack/read_rows.cu
  src/pack/read_rows_host.cpp
  src/pack/update_rows.cu
  src/pack/update_rows_host.cpp
  src/reduce/aggregate_host.cpp
  src/reduce/expand_argument.cu
  src/sparse/choose_backend.cpp
  src/sparse/cost_model.cpp
  src/sparse/cusparse_product.cpp
  src/sparse/plan_state.cpp
  src/sparse/sddmm_host.cpp
  src/sparse/spmm_host.cpp
  ${quipu_instantiations})
add_library(quipu::quipu ALIAS quipu)
target_include_directories(quipu PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(quipu PUBLIC quipu_headers PRIVATE CUDA::cusparse
                                                         "$<BUILD_INTERFACE:quipu_warnings>")
set_target_properties(quipu PROPERTIES POSITION_INDEPENDENT_CODE ON VERSION ${PROJECT_VERSION}
                                       SOVERSION ${PROJECT_VERSION_MAJOR})
# The host engine leans on the vectoriser.
target_compile_options(quipu PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O3>")
if(BUILD_SHARED_LIBS)
  target_link_options(quipu PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/quipu.map")
  set_target_properties(quipu PROPERTIES LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/quipu.map")
endif()
