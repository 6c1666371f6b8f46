# Manual pages (manual/man1) and completions for shells (manual/completions), both from the command itself, which must
# run here: there are none where Kiln is built for another machine.
if(NOT CMAKE_CROSSCOMPILING)
  set(manual ${PROJECT_BINARY_DIR}/manual)
  add_custom_command(
    OUTPUT ${manual}/made
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}/completions
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/man_pages.sh $<TARGET_FILE:kiln> ${manual}/man1
    COMMAND kiln completion bash > ${manual}/completions/kiln.bash
    COMMAND kiln completion zsh > ${manual}/completions/kiln.zsh
    COMMAND kiln completion fish > ${manual}/completions/kiln.fish
    COMMAND ${CMAKE_COMMAND} -E touch ${manual}/made
    DEPENDS kiln ${PROJECT_SOURCE_DIR}/cmake/man_pages.sh
    VERBATIM)
  add_custom_target(kiln_manual ALL DEPENDS ${manual}/made)
endif()
