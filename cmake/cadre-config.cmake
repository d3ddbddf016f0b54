# find_package(cadre) gives the target cadre::cadre.
include("${CMAKE_CURRENT_LIST_DIR}/cadre-targets.cmake")
