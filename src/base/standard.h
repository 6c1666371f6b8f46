// The standard headers that nearly every file uses. CMakeLists.txt puts them in front of every source, precompiled (or,
// with a compiler cache, which cannot share precompiled headers, as plain text).
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
