// Each pass of this folder on a small program in text: what it writes down, and that the program computes the same.
#include "schedule/schedule_passes_test.h"

namespace kiln::loops {
namespace {

const char* convolution = R"(loops convolution
buffer x f32[1, 8, 6, 5] strides [240, 30, 5, 1] input position 0
buffer w f32[16, 8, 3, 3] strides [72, 9, 3, 1] constant named "w"
buffer c f32[1, 16, 6, 5] strides [480, 30, 5, 1] temp
buffer y f32[1, 16, 6, 5] strides [480, 30, 5, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel conv ops [convolution] {
    for i1 in [16] parallel {
      for i2 in [6] parallel {
        for i3 in [5] parallel {
          %0 = for r0 in [8] reduce sum.f32 {
            %1 = for r1 in [3] reduce sum.f32 {
              %2 = for r2 in [3] reduce sum.f32 {
                %3 = index.i64 [i2 + r1 - 1]
                %4 = index.i64 [0]
                %5 = ge.bool %3, %4
                %6 = index.i64 [6]
                %7 = lt.bool %3, %6
                %8 = logical_and.bool %5, %7
                %9 = index.i64 [i3 + r2 - 1]
                %10 = ge.bool %9, %4
                %11 = logical_and.bool %8, %10
                %12 = index.i64 [5]
                %13 = lt.bool %9, %12
                %14 = logical_and.bool %11, %13
                %15 = load.f32 x[0, r0, i2 + r1 - 1, i3 + r2 - 1] mask %14
                %16 = load.f32 w[i1, r0, r1, r2]
                %17 = mul.f32 %15, %16
                yield %17
              }
              yield %2
            }
            yield %1
          }
          store c[0, i1, i2, i3] = %0
        }
      }
    }
  }
  kernel relu ops [relu] {
    for i1 in [16] parallel {
      for i2 in [6] parallel {
        for i3 in [5] parallel {
          %0 = load.f32 c[0, i1, i2, i3]
          %1 = constant.f32 0.0
          %2 = max.f32 %0, %1
          store y[0, i1, i2, i3] = %2
        }
      }
    }
  }
}
)";

TEST_F(SchedulePasses, LayoutsPutChannelsLastAndCopyWhatTheUserGives) {
  given(convolution);
  EXPECT_TRUE(choose_layouts(program_, log_));
  const std::string text = after();
  EXPECT_TEXT(text, "buffer c f32[1, 16, 6, 5] strides [480, 1, 80, 16] temp");
  EXPECT_TEXT(text, "buffer x_channels_last f32[1, 8, 6, 5] strides [240, 1, 40, 8] temp");
  EXPECT_TEXT(text, "buffer y f32[1, 16, 6, 5] strides [480, 30, 5, 1] output");
  EXPECT_TEXT(text, "load.f32 x_channels_last[0, r0, i2 + r1 - 1, i3 + r2 - 1]");
}

// What is read beside a scale for each channel is not laid out like the pictures that are.
TEST_F(SchedulePasses, AVectorOfChannelsSaysNothingOfLayouts) {
  std::string text = convolution;
  const auto put = [&](const std::string& before, const std::string& what) { text.insert(text.find(before), what); };
  put("input x = ",
      "buffer s f32[1, 16, 1, 1] strides [16, 1, 1, 1] temp\n"
      "buffer h f32[1, 4, 30, 4] strides [480, 120, 4, 1] temp\n");
  put("          %2 = max.f32 %0",
      "          %3 = load.f32 s[0, i1, 0, 0]\n"
      "          %4 = load.f32 h[0, i1 // 4, i2*5 + i3, i1 % 4]\n");
  given(text);
  choose_layouts(program_, log_);
  EXPECT_TEXT(after(), "buffer c f32[1, 16, 6, 5] strides [480, 1, 80, 16] temp");
  EXPECT_TEXT(after(), "buffer h f32[1, 4, 30, 4] strides [480, 120, 4, 1] temp");
}

// The channels in groups, and the sum of the groups, lie as the picture does that they are made of; what its loops do
// not go along one by one stays.
TEST_F(SchedulePasses, LayoutsOfWhatIsMadeOfAPicture) {
  std::string text = convolution;
  const auto put = [&](const std::string& before, const std::string& what) { text.insert(text.find(before), what); };
  put("input x = ",
      "buffer parts f32[1, 2, 8, 6, 5] strides [480, 240, 30, 5, 1] temp\n"
      "buffer sum f32[1, 8, 6, 5] strides [240, 30, 5, 1] temp\n"
      "buffer rows f32[16, 3, 10] strides [30, 10, 1] temp\n");
  text.insert(text.rfind('}'), R"(  kernel parts ops [reshape] {
    for i1 in [2] parallel {
      for i2 in [8] parallel {
        for i3 in [6] parallel {
          for i4 in [5] parallel {
            %0 = load.f32 c[0, i1*8 + i2, i3, i4]
            store parts[0, i1, i2, i3, i4] = %0
          }
        }
      }
    }
  }
  kernel sum ops [sum] {
    for i1 in [8] parallel {
      for i2 in [6] parallel {
        for i3 in [5] parallel {
          %0 = for r0 in [2] reduce sum.f32 {
            %1 = load.f32 parts[0, r0, i1, i2, i3]
            yield %1
          }
          store sum[0, i1, i2, i3] = %0
        }
      }
    }
  }
  kernel rows ops [reshape] {
    for i1 in [16] parallel {
      for i2 in [3] parallel {
        for i3 in [10] parallel {
          %0 = load.f32 c[0, i1, i2*2 + i3 // 5, 4 - i3 % 5]
          store rows[i1, i2, i3] = %0
        }
      }
    }
  }
)");
  given(text);
  EXPECT_TRUE(choose_layouts(program_, log_));
  const std::string made = after();
  EXPECT_TEXT(made, "buffer c f32[1, 16, 6, 5] strides [480, 1, 80, 16] temp");
  EXPECT_TEXT(made, "buffer parts f32[1, 2, 8, 6, 5] strides [480, 8, 1, 80, 16] temp");
  EXPECT_TEXT(made, "buffer sum f32[1, 8, 6, 5] strides [240, 1, 40, 8] temp");
  EXPECT_TEXT(made, "buffer rows f32[16, 3, 10] strides [30, 10, 1] temp");
  EXPECT_TEXT(made, R"(    for i3 in [6] parallel {
      for i4 in [5] parallel {
        for i1 in [2] parallel {
          for i2 in [8] parallel {
            %0 = load.f32 c[0, i1*8 + i2, i3, i4])");
}

// Weights that are computed from weights (a weight norm) are weights.
TEST_F(SchedulePasses, LayoutsKnowWeightsThatAreComputed) {
  std::string text = replace_all(convolution, "load.f32 w[i1, r0, r1, r2]", "load.f32 twice[i1, r0, r1, r2]");
  text.insert(text.find("input x = "), "buffer twice f32[16, 8, 3, 3] strides [72, 9, 3, 1] temp\n");
  text.insert(text.find("main {") + 7, R"(  kernel twice ops [add] {
    for i0 in [16] parallel {
      for i1 in [8] parallel {
        for i2 in [3] parallel {
          for i3 in [3] parallel {
            %0 = load.f32 w[i0, i1, i2, i3]
            %1 = add.f32 %0, %0
            store twice[i0, i1, i2, i3] = %1
          }
        }
      }
    }
  }
)");
  given(text);
  EXPECT_TRUE(choose_layouts(program_, log_));
  EXPECT_TEXT(after(), "buffer c f32[1, 16, 6, 5] strides [480, 1, 80, 16] temp");
  EXPECT_TEXT(after(), "buffer twice f32[16, 8, 3, 3] strides [72, 9, 3, 1] temp");
}

// Weights that are an input: the window slides over the other one.
TEST_F(SchedulePasses, LayoutsKnowWeightsThatTheUserGives) {
  std::string text = replace_all(convolution, "constant named \"w\"", "input position 1");
  text.insert(text.find("output buffer"), "input w = buffer w\n");
  given(text);
  EXPECT_TRUE(choose_layouts(program_, log_));
  EXPECT_TEXT(after(), "buffer c f32[1, 16, 6, 5] strides [480, 1, 80, 16] temp");
  EXPECT_TEXT(after(), "load.f32 x_channels_last[0, r0, i2 + r1 - 1, i3 + r2 - 1]");
  EXPECT_TEXT(after(), "load.f32 w[i1, r0, r1, r2]");
}

// A head and a place in it number a row's columns together (i1*64 + r0): no window slides there, and the scores of an
// attention lie as they are.
TEST_F(SchedulePasses, LayoutsLeaveScoresOfHeads) {
  given(R"(loops scores
buffer q f32[1, 6, 40, 64] strides [15360, 2560, 64, 1] input position 0
buffer k f32[1, 40, 384] strides [15360, 384, 1] input position 1
buffer scores f32[1, 6, 40, 40] strides [9600, 1600, 40, 1] temp
buffer y f32[1, 6, 40, 40] strides [9600, 1600, 40, 1] output position 0
input q = buffer q
input k = buffer k
output buffer y
init {
}
main {
  kernel matmul ops [matmul] {
    for i1 in [6] parallel {
      for i2 in [40] parallel {
        for i3 in [40] parallel {
          %0 = for r0 in [64] reduce sum.f32 {
            %1 = load.f32 q[0, i1, i2, r0]
            %2 = load.f32 k[0, i3, i1*64 + r0]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store scores[0, i1, i2, i3] = %0
        }
      }
    }
  }
  kernel exp ops [exp] {
    for i1 in [6] parallel {
      for i2 in [40] parallel {
        for i3 in [40] parallel {
          %0 = load.f32 scores[0, i1, i2, i3]
          %1 = exp.f32 %0
          store y[0, i1, i2, i3] = %1
        }
      }
    }
  }
}
)");
  EXPECT_FALSE(choose_layouts(program_, log_));
}

// In groups of two they fill no tile: points stay in lanes.
// A product for each line, each with a table of its own (positions of MViT and SAM): lines are no channels.
TEST_F(SchedulePasses, ProductsOfTheirOwnKeepTheirLayout) {
  given(R"(loops tables
buffer x f32[4, 1260, 24] strides [30240, 24, 1] input position 0
buffer w f32[30, 24, 14] strides [336, 14, 1] constant named "w"
buffer c f32[30, 42, 14] strides [588, 14, 1] temp
buffer y f32[30, 42, 14] strides [588, 14, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel products ops [matmul] {
    for i0 in [30] parallel {
      for i1 in [42] parallel {
        for i2 in [14] parallel {
          %0 = for r0 in [24] reduce sum.f32 {
            %1 = load.f32 w[i0, r0, i2]
            %2 = load.f32 x[0, i0*42 + i1, r0]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store c[i0, i1, i2] = %0
        }
      }
    }
  }
  kernel relu ops [relu] {
    for i0 in [30] parallel {
      for i1 in [42] parallel {
        for i2 in [14] parallel {
          %0 = load.f32 c[i0, i1, i2]
          %1 = constant.f32 0.0
          %2 = max.f32 %0, %1
          store y[i0, i1, i2] = %2
        }
      }
    }
  }
}
)");
  choose_layouts(program_, log_);
  EXPECT_TEXT(after(), "buffer c f32[30, 42, 14] strides [588, 14, 1] temp");
}

TEST_F(SchedulePasses, LayoutsLeaveSmallGroupsOfComputedWeights) {
  std::string text = replace_all(convolution, "constant named \"w\"", "input position 1");
  text.insert(text.find("output buffer"), "input w = buffer w\n");
  given(replace_all(text, "x[0, r0, i2", "x[0, i1 // 2, i2"));
  EXPECT_FALSE(choose_layouts(program_, log_));
}

// Lines of the picture are taken at computed places, each twice: it is the same picture in another size.
TEST_F(SchedulePasses, APictureOfComputedPlacesIsLaidOutAsTheOneItIsMadeOf) {
  std::string text = replace_all(convolution, "buffer y f32[1, 16, 6, 5] strides [480, 30, 5, 1] output",
                                 "buffer large f32[1, 16, 12, 5] strides [960, 60, 5, 1] temp\n"
                                 "buffer y f32[1, 16, 12, 5] strides [960, 60, 5, 1] output");
  text = text.substr(0, text.find("  kernel relu")) + R"(  kernel up ops [upsample_nearest2d] {
    for i1 in [16] parallel {
      for i2 in [12] parallel {
        for i3 in [5] parallel {
          %0 = index.i64 [i2 // 2]
          %1 = check_index j0 = %0 in [6] site 0
          %2 = load.f32 c[0, i1, j0, i3]
          store large[0, i1, i2, i3] = %2
        }
      }
    }
  }
  kernel exp ops [exp] {
    for i1 in [16] parallel {
      for i2 in [12] parallel {
        for i3 in [5] parallel {
          %0 = load.f32 large[0, i1, i2, i3]
          %1 = exp.f32 %0
          store y[0, i1, i2, i3] = %1
        }
      }
    }
  }
}
origin 0 node "n" op "aten.n.default" module ""
)";
  given(replace_all(text, "init {", "site \"index\" origin 0\ninit {"));
  EXPECT_TRUE(choose_layouts(program_, log_));
  EXPECT_TEXT(after(), "buffer large f32[1, 16, 12, 5] strides [960, 1, 80, 16] temp");
}

TEST_F(SchedulePasses, AConvolutionIsAContractionOverLinesAndPoints) {
  given(convolution);
  choose_layouts(program_, log_);
  hoist_invariants(program_, log_);
  EXPECT_TRUE(find_contractions(program_, log_));
  // The window outside, where its masks change; channels inside, where they are neighbours.
  EXPECT_TEXT(after(), "contraction batch [] rows [i2, i3] columns [i1] sums [r1, r2, r0] left %15 of");
}

// Points of a picture that lie in a row are rows of a product: no quotient is needed to find one.
TEST_F(SchedulePasses, RowsThatLieInOneLineAreOneLoop) {
  const auto product = [](int64_t line) {
    return str("loops product\nbuffer x f32[8, 6, 5] strides [1, ", line, ", 8] input position 0\n",
               R"(buffer w f32[16, 8] strides [8, 1] constant named "w"
buffer y f32[16, 6, 5] strides [1, 80, 16] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel product ops [convolution] {
    for i2 in [6] parallel {
      %4 = constant.f32 0.0
      for i3 in [5] parallel {
        for i1 in [16] parallel {
          %3 = for r0 in [8] reduce sum.f32 {
            %0 = load.f32 x[r0, i2, i3]
            %1 = load.f32 w[i1, r0]
            %2 = mul.f32 %0, %1
            yield %2
          }
          %5 = max.f32 %3, %4
          store y[i1, i2, i3] = %5
        }
      }
    }
    name %3 = product[i1, i2, i3]
  }
}
)");
  };
  target_.lanes = 4, target_.vector_registers = 16;
  given(product(40));
  find_contractions(program_, log_);
  use_templates(program_, target_, log_);
  std::string text = after();
  EXPECT_TEXT(text, "contraction batch [] rows [i2] columns [i1] sums [r0]");
  EXPECT_TEXT(text, "for i2 in [30] parallel");
  EXPECT_TEXT(text, "name %3 = product[i1, i2 // 5, i2 % 5]");
  // Lines with a gap between them stay lines.
  given(product(48));
  find_contractions(program_, log_);
  use_templates(program_, target_, log_);
  EXPECT_TEXT(after(), "contraction batch [] rows [i2, i3] columns [i1] sums [r0]");
}

TEST_F(SchedulePasses, WeightsArePackedInPanels) {
  given(convolution);
  choose_layouts(program_, log_);
  hoist_invariants(program_, log_);
  find_contractions(program_, log_);
  target_.lanes = 4, target_.vector_registers = 16;
  EXPECT_TRUE(use_templates(program_, target_, log_));
  const std::string text = after();
  EXPECT_TEXT(text, "buffer w_packed f32[");
  EXPECT_TEXT(text, "store w_packed[i0, i1, i2, i3, i4]");
  EXPECT_TEXT(text, " rows ");
}

// Rows of 392 that are [8, 7, 7] elsewhere: lanes along them would divide for each element.
TEST_F(SchedulePasses, ARowIsSplitWhereItsLanesWouldGather) {
  given(R"(loops reshaped
buffer x f32[16, 392] strides [392, 1] input position 0
buffer h f32[16, 7, 7] strides [49, 7, 1] input position 1
buffer t f32[16, 8] strides [8, 1] input position 2
buffer y f32[16, 392] strides [392, 1] output position 0
input x = buffer x
input h = buffer h
input t = buffer t
output buffer y
init {
}
main {
  kernel add ops [add] {
    for i0 in [16] parallel {
      for i1 in [392] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = load.f32 h[i0, (i1 // 7) % 7, i1 % 7]
        %2 = load.f32 t[i0, i1 // 49]
        %3 = add.f32 %0, %1
        %4 = add.f32 %3, %2
        store y[i0, i1] = %4
      }
    }
  }
}
)");
  EXPECT_TRUE(collapse_loops(program_, {}, log_));
  const std::string text = after();
  EXPECT_NE(text.find("for o0 in [8] parallel {"), std::string::npos) << text;
  EXPECT_NE(text.find("for i1 in [49] parallel {"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 t[i0, o0]"), std::string::npos) << text;
}

TEST_F(SchedulePasses, EveryKernelIsScheduledAtTheEnd) {
  given(convolution);
  choose_layouts(program_, log_);
  hoist_invariants(program_, log_);
  find_contractions(program_, log_);
  use_templates(program_, target_, log_);
  collapse_loops(program_, {}, log_);
  bind_axes(program_, target_, log_);
  widen_sums(program_, log_);
  order_sums(program_, log_);
  count_items(program_, log_);
  name_kernels(program_, log_);
  const std::string text = after();
  EXPECT_TEXT(text, "reduce sum.f32 fused");
  for_each_item(program_.block, [&](const Item& item) {
    const auto& kernel = std::get<Kernel>(item.what);
    ASSERT_TRUE(kernel.schedule) << text;
    EXPECT_EQ(kernel.schedule->items.text(), item_count(kernel).text());
  });
}

TEST_F(SchedulePasses, AVarianceIsTwoSums) {
  given(R"(loops variance
buffer x f32[4, 40] strides [40, 1] input position 0
buffer y f32[4] strides [1] output position 0
buffer m f32[4] strides [1] output position 1
input x = buffer x
output buffer y
output buffer m
init {
}
main {
  kernel variance ops [var_mean] {
    for i0 in [4] parallel {
      %0, %1, %2 = for r0 in [40] reduce welford.f32 {
        %3 = load.f32 x[i0, r0]
        yield %3
      }
      %4 = div.f32 %1, %2
      store y[i0] = %4
      store m[i0] = %0
    }
  }
}
)");
  EXPECT_TRUE(split_variances(program_, log_));
  const std::string text = after();
  EXPECT_EQ(text.find("welford"), std::string::npos) << text;
  EXPECT_TEXT(text, "reduce sum.f64");
  EXPECT_TEXT(text, "div.f64");  // the sum of the squares may be more than f32 has place for
}

TEST_F(SchedulePasses, LoopsFollowResultsWithTurnedDimensions) {
  given(R"(loops turned
buffer x f32[3, 5, 7] strides [35, 7, 1] input position 0
buffer y f32[3, 5, 7] strides [35, 1, 5] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel relu ops [relu] {
    for i0 in [3] parallel {
      for i1 in [5] parallel {
        for i2 in [7] parallel {
          %0 = load.f32 x[i0, i1, i2]
          store y[i0, i1, i2] = %0
        }
      }
    }
  }
}
)");
  EXPECT_TRUE(choose_layouts(program_, log_));
  EXPECT_TEXT(after(), "for i2 in [7] parallel {\n        for i1 in [5] parallel {");
  EXPECT_FALSE(choose_layouts(program_, log_));
}

// A mask that divides splits a row, though its address does not.
TEST_F(SchedulePasses, RowsSplitWhereValuesDivide) {
  given(R"(loops windows
buffer x f32[4, 32] strides [32, 1] input position 0
buffer y f32[128] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel im2col ops [im2col] {
    for i0 in [128] parallel {
      %0 = index.i64 [i0 % 32 - 1]
      %1 = index.i64 [0]
      %2 = ge.bool %0, %1
      %3 = load.f32 x[i0 // 32, i0 % 32 - 1] mask %2
      store y[i0] = %3
    }
  }
}
)");
  target_.lanes = 16;
  EXPECT_TRUE(collapse_loops(program_, target_, log_));
  EXPECT_TEXT(after(), "for o0 in [4] parallel {\n      for i0 in [32] parallel {");
}

// Patches of a picture whose colours lie apart: colours by turns, in parts as long as a line of a patch.
TEST_F(SchedulePasses, PartsOfARowAreTakenByTurns) {
  given(R"(loops patches
buffer x f32[3, 4, 20] strides [80, 20, 1] input position 0
buffer y f32[192] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel patches ops [reshape] {
    for i0 in [192] parallel {
      %0 = load.f32 x[i0 % 3, i0 // 48, (i0 // 3) % 16]
      store y[i0] = %0
    }
  }
}
)");
  target_.lanes = 16;
  EXPECT_TRUE(collapse_loops(program_, target_, log_));
  EXPECT_TEXT(after(), "for o1 in [4] parallel {\n      for o0 in [3] parallel {\n        for i0 in [16] parallel {");
}

// The samples repeat themselves: the first of equal ones counts.
TEST_F(SchedulePasses, PlacesOfExtremesRunInLanes) {
  given(R"(loops extremes
buffer x f32[4, 40] strides [40, 1] input position 0
buffer m f32[4] strides [1] output position 0
buffer y i64[4] strides [1] output position 1
input x = buffer x
output buffer m
output buffer y
init {
}
main {
  kernel extremes ops [max] {
    for i0 in [4] parallel {
      %0, %1 = for r0 in [40] reduce argmax.f32 {
        %2 = load.f32 x[i0, r0]
        yield %2
      }
      store m[i0] = %0
      store y[i0] = %1
    }
  }
}
)");
  EXPECT_TRUE(split_extremes(program_, {}, log_));
  EXPECT_EQ(after().find("argmax"), std::string::npos) << after();
  EXPECT_TEXT(after(), "reduce max.f32");
  EXPECT_TEXT(after(), "reduce min.i64");
}

TEST_F(SchedulePasses, LongSumsAreAddedUpInBlocks) {
  given(R"(loops sums
buffer x f32[4, 1000] strides [1000, 1] input position 0
buffer y f32[4] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel sums ops [sum] {
    for i0 in [4] parallel {
      %0 = for r0 in [1000] reduce sum.f32 {
        %1 = load.f32 x[i0, r0]
        yield %1
      }
      store y[i0] = %0
    }
  }
}
)");
  bind_axes(program_, target_, log_);
  widen_sums(program_, log_);
  order_sums(program_, log_);
  count_items(program_, log_);
  EXPECT_TEXT(after(), "for r0 in [1000] reduce sum.f32 blocks(32, f32) @lane(16, mask)");
}

// y[which[i1], i0] += x[i1, i0], or y[which[i0], i0] where `by_column`, which every lane has elsewhere.
std::string accumulation(bool by_column) {
  return str(R"(loops rows
buffer x f32[40, 20] strides [20, 1] input position 0
buffer which i64[40] strides [1] input position 1
buffer y f32[8, 20] strides [20, 1] output position 0
input x = buffer x
input which = buffer which
output buffer y
site "out of range" origin 0
init {
}
main {
  kernel rows ops [index_add] {
    for i0 in [20] parallel {
      for i1 in [40] parallel @serial {
        %0 = load.i64 which[)",
             by_column ? "i0" : "i1", R"(]
        %1 = check_index j0 = %0 in [8] site 0
        %2 = load.f32 x[i1, i0]
        store.add y[j0, i0] = %2
      }
    }
  }
}
origin 0 node "rows" op "aten.index_add.default" module ""
)");
}

TEST_F(SchedulePasses, RowsAreAddedToOneAnotherInLanes) {
  program_ = parse_loops(accumulation(false));
  bind_axes(program_, target_, log_);
  EXPECT_TEXT(print(program_), "for i0 in [20] parallel @lane(16, mask) {");
  program_ = parse_loops(accumulation(true));
  bind_axes(program_, target_, log_);
  EXPECT_EQ(print(program_).find("@lane"), std::string::npos) << print(program_);
}

TEST_F(SchedulePasses, ATransposeRunsInBlocks) {
  given(R"(loops transpose
buffer x f32[2, 50, 40] strides [2000, 40, 1] input position 0
buffer y f32[2, 40, 50] strides [2000, 50, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel transpose ops [transpose] {
    for i0 in [2] parallel {
      for i1 in [40] parallel {
        for i2 in [50] parallel {
          %0 = load.f32 x[i0, i2, i1]
          store y[i0, i1, i2] = %0
        }
      }
    }
  }
}
)");
  bind_axes(program_, target_, log_);
  count_items(program_, log_);
  const std::string text = after();
  for (const char* part :
       {"for i0 in [2] parallel @item {", "for o0 in [3] parallel @item {", "for o1 in [4] parallel @item {",
        "for i1 in [min(16,", "for i2 in [min(16,", "@lane(16, mask)"})
    EXPECT_TEXT(text, part);
}

// As it does where sizes are not known; a line of a block is no item.
TEST_F(SchedulePasses, ATransposeOfUnknownSizeRunsInBlocks) {
  program_ = parse_loops(R"(loops transpose
symbol s0 in [2, inf] hint 50
buffer x f32[s0, 64] strides [64, 1] input position 0
buffer y f32[64, s0] strides [s0, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel transpose ops [transpose] {
    for i0 in [64] parallel {
      for i1 in [s0] parallel {
        %0 = load.f32 x[i1, i0]
        store y[i0, i1] = %0
      }
    }
  }
}
)");
  bind_axes(program_, target_, log_);
  verify(program_);
  const std::string text = print(program_);
  for (const char* part : {"for o0 in [4] parallel @item {", "for o1 in [(s0 + 15) // 16] parallel @item {",
                           "for i0 in [16] parallel {", "for i1 in [min(16, "})
    EXPECT_TEXT(text, part);
}

// y[0, i] = sum x[r] * w[r, i]: 768 columns of 300 terms, or of 3.
std::string one_row(int terms) {
  return str(R"(loops row
buffer x f32[)",
             terms, R"(] strides [1] input position 0
buffer w f32[)",
             terms, R"(, 768] strides [768, 1] input position 1
buffer y f32[768] strides [1] output position 0
input x = buffer x
input w = buffer w
output buffer y
init {
}
main {
  kernel row ops [mm] {
    for i0 in [768] parallel {
      %3 = for r0 in [)",
             terms, R"(] reduce sum.f32 {
        %0 = load.f32 x[r0]
        %1 = load.f32 w[r0, i0]
        %2 = mul.f32 %0, %1
        yield %2
      }
      store y[i0] = %3
    }
  }
}
)");
}

TEST_F(SchedulePasses, AProductOfOneRowIsSharedOutInWidePieces) {
  program_ = parse_loops(one_row(300));
  bind_axes(program_, target_, log_);
  EXPECT_TEXT(print(program_), "for o0 in [12] parallel @item {");
  EXPECT_TEXT(print(program_), "for i0 in [64] parallel @lane(64, exact) {");
  program_ = parse_loops(one_row(3));
  bind_axes(program_, target_, log_);
  EXPECT_TEXT(print(program_), "for o0 in [1] parallel @item {");
  EXPECT_TEXT(print(program_), "for i0 in [768] parallel @lane(16, exact) {");
}

TEST_F(SchedulePasses, AProductOfOneRowTakesLongerPiecesOfLinesThatArePagesApart) {
  auto bound = [&](const char* columns, int registers) {
    program_ = parse_loops(replace_all(one_row(300), "768", columns));
    target_.vector_registers = registers;
    bind_axes(program_, target_, log_);
    verify(program_);
    return print(program_);
  };
  EXPECT_TEXT(bound("4096", 32), "for i0 in [256] parallel @lane(256, exact) {");
  EXPECT_TEXT(bound("4096", 16), "for i0 in [128] parallel @lane(128, exact) {");
  EXPECT_TEXT(bound("2048", 32), "for o0 in [16] parallel @item {");  // as many as threads want
  EXPECT_TEXT(bound("1024", 32), "for i0 in [64] parallel @lane(64, exact) {");
  EXPECT_TEXT(bound("5003", 32), "@lane(256, mask) {");
}

// Each item's columns in one piece of memory, unless the matrix stays in a core's cache anyway or is no constant.
TEST_F(SchedulePasses, AProductOfOneRowReadsALargeMatrixInPanels) {
  auto with_weight = [](int terms) {
    const std::string text = replace_all(one_row(terms), "input w = buffer w\n", "");
    return replace_all(text, "[768, 1] input position 1", "[768, 1] constant named \"w\"");
  };
  const auto bound = [&](const std::string& text) {
    program_ = parse_loops(text);
    use_templates(program_, target_, log_);
    bind_axes(program_, target_, log_);
    verify(program_);
    return print(program_);
  };
  const std::string packed = bound(with_weight(300));
  EXPECT_TEXT(packed, "buffer w_packed f32[12, 300, 64] strides [19200, 64, 1] derived");
  EXPECT_TEXT(packed, "load.f32 w_packed[i0 // 64, r0, i0 % 64]");
  // The last item has fewer columns: zeros beside them.
  EXPECT_TEXT(bound(replace_all(with_weight(300), "768", "700")),
              "buffer w_packed f32[11, 300, 64] strides [19200, 64, 1] derived");
  for (const std::string& text : {with_weight(160), one_row(300)})
    EXPECT_TEXT(bound(text), "load.f32 w[r0, i0 + o0*64]");
}

// The same in a loop, of a matrix whose rows are the columns of the product: h = w h, eight times.
const char* const repeated_row = R"(loops steps
symbol it0 in [0, inf] unbacked
buffer w f32[768, 300] strides [300, 1] constant named "w"
buffer h f32[300] strides [1] input position 0
buffer y f32[768] strides [1] output position 0
input h = buffer h
output buffer y
init {
}
main {
  while steps counting it0 {
  } on expr [it0 < 8] do {
    kernel row ops [mm] {
      for i0 in [768] parallel {
        %3 = for r0 in [300] reduce sum.f32 {
          %0 = load.f32 h[r0]
          %1 = load.f32 w[i0, r0]
          %2 = mul.f32 %0, %1
          yield %2
        }
        store y[i0] = %3
      }
    }
  }
}
)";

TEST_F(SchedulePasses, AProductThatALoopRepeatsReadsItsMatrixPacked) {
  program_ = parse_loops(repeated_row);
  use_templates(program_, target_, log_);
  bind_axes(program_, target_, log_);
  verify(program_);
  const std::string text = print(program_);
  EXPECT_TEXT(text, "buffer w_packed f32[12, 300, 64] strides [19200, 64, 1] derived");
  EXPECT_TEXT(text, "load.f32 w_packed[i0 // 64, r0, i0 % 64]");
  count_items(program_, log_);
  EXPECT_TEXT(print(program_), "lanes 16 turns");
  // Once in a call it stays as it is: packing would read it once, too.
  std::string once = repeated_row;
  once = once.substr(0, once.find("  while")) + once.substr(once.find("    kernel"));
  once.resize(once.rfind("  }\n}\n"));
  program_ = parse_loops(once + "}\n");
  use_templates(program_, target_, log_);
  bind_axes(program_, target_, log_);
  EXPECT_TEXT(print(program_), "for r0 in [300] reduce sum.f32 @lane(16, mask) {");
}

// A row of a matrix that is read once: vectors of even and of odd number have a sum each, where all of them have a
// pair.
TEST_F(SchedulePasses, LongSumsOfProductsInLanesRunInTwoChains) {
  std::string once = replace_all(repeated_row, "300", "1024");
  once = once.substr(0, once.find("  while")) + once.substr(once.find("    kernel"));
  once.resize(once.rfind("  }\n}\n"));
  once += "}\n";
  program_ = parse_loops(once);
  bind_axes(program_, target_, log_);
  order_sums(program_, log_);
  verify(program_);
  const std::string text = print(program_);
  EXPECT_TEXT(text, "for r0 in [1024] reduce sum.f32 fused blocks(256, f32) chains(2) @lane(16, exact) {");
  EXPECT_EQ(print(parse_loops(text)), text);
  EXPECT_THROW(verify(parse_loops(replace_all(text, "1024", "1040"))), Error);
  program_ = parse_loops(replace_all(once, "1024", "1040"));
  bind_axes(program_, target_, log_);
  order_sums(program_, log_);
  EXPECT_TEXT(print(program_), "for r0 in [1040] reduce sum.f32 fused blocks(256, f32) @lane(16, exact) {");
}

// What runs once, when weights are loaded, and has little to do is one element at a time: it is compiled sooner.
TEST_F(SchedulePasses, SmallKernelsOfInitHaveNoLanes) {
  for (const bool small : {true, false}) {
    std::string text = R"(loops prepared
buffer w f32[SIZE] strides [1] constant named "w"
buffer d f32[SIZE] strides [1] derived
buffer y f32[16] strides [1] output position 0
output buffer y
init {
  kernel scale ops [exp] {
    for i0 in [SIZE] parallel {
      %0 = load.f32 w[i0]
      %1 = exp.f32 %0
      store d[i0] = %1
    }
  }
}
main {
  kernel copy ops [copy] {
    for i0 in [16] parallel {
      %0 = load.f32 d[i0]
      store y[i0] = %0
    }
  }
}
)";
    program_ = parse_loops(replace_all(text, "SIZE", small ? "4096" : "1048576"));
    bind_axes(program_, target_, log_);
    verify(program_);
    const std::string made = print(program_),
                      init = made.substr(made.find("init {"), made.find("main {") - made.find("init {"));
    EXPECT_EQ(init.find("@lane") == std::string::npos, small) << init;
    EXPECT_NE(made.find("@lane", made.find("main {")), std::string::npos) << made;
  }
}

}  // namespace
}  // namespace kiln::loops
