#include "trace/report.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"

namespace kiln {
namespace {

// A trace as the compiler writes it, shortened.
const char* const trace_text =
    R"trace({"type":"session","time":1.0,"trace_version":1,"kiln_version":"0.1.0","pid":7}
{"type":"compile_start","time":2.0,"model":"m","model_path":"secret/folder/net.pt2","package_path":"secret/p.pt2","device":"cpu","targets":["x86-64-v3"],"torch_version":"2.9","nodes":2,"weights":1,"weight_bytes":64}
{"type":"stage","time":2.1,"name":"read","stage":"as exported","text":"class GraphModule:\n    x = private_call()\n    return x\n"}
{"type":"pass","time":2.2,"name":"lower","stage":"lower","start_ms":0.5,"run_ms":1.5,"changed":true}
{"type":"stage","time":2.2,"name":"lower","stage":"lower","text":"loops m\n    return x\n"}
{"type":"fusion","time":2.3,"pass":"merge_kernels","decisions":[{"verdict":"no merge of","subject":"a","link":"with","other":"b","reason":"too large","taken":false},{"verdict":"name","subject":"pack_p_secret_weight_1","link":"","other":"","reason":"","taken":true}]}
{"type":"kernel","time":2.4,"name":"cpp_fused_pack_1","step":0,"kind":"kernel","init":true,"depth":0,"call":"cpp_fused_pack_1()","symbol":"cpp_fused_pack_1","source":"void f() {}","loops":"kernel","schedule":"","origins":[],"hints":[],"reads":[],"writes":[]}
{"type":"kernel","time":2.4,"name":"cpp_fused_add_0","step":1,"kind":"kernel","init":false,"depth":0,"call":"cpp_fused_add_0(secret_x: read, p_secret_weight: read)","symbol":"cpp_fused_add_0","source":"float private_constant = 3;","loops":"constant 3","schedule":"","origins":[{"node":"add","op":"aten.add.Tensor","module":"secret_layer","line":"secret/folder/net.py:3 in forward:  y = private_call()"}],"hints":[],"reads":["secret_x","p_secret_weight"],"writes":[]}
{"type":"guards","time":2.5,"guards":[{"text":"s0 <= 8","reason":"range"}],"symbols":[],"inputs":[],"outputs":[]}
{"type":"memory","time":2.5,"steps":["cpp_fused_add_0"],"buffers":[{"name":"p_secret_weight","role":"constant","type":"f32[4]"},{"name":"secret_x","role":"input","type":"f32[4]"}],"sample":{}}
{"type":"note","time":2.5,"pass":"lower","text":"secret_layer was inlined"}
{"type":"job","time":2.6,"name":"kernels and link","target":"x86-64-v3","start_ms":3.0,"run_ms":99.0,"from_cache":false}
{"type":"error","time":2.7,"code":"K0203","message":"</script><b>bad\nmore private_call","where":{"file":"secret/folder/net.py","line":3,"text":"y = private_call()","pass":"lower"},"text":"all private_call"}
{"type":"run","time":3.0,"model":"m","calls":2,"seconds":0.5,"steps":[{"name":"cpp_fused_add_0","step":1,"calls":2,"seconds":0.5}]}
{"type":"kernel","time":4.0,"name":"cut off in the mid)trace";

class ReportTest : public testing::Test {
 protected:
  void SetUp() override { write_file_atomic(join_path(directory_.path(), "kiln_trace_1.jsonl"), trace_text); }
  TemporaryDirectory directory_;
};

TEST_F(ReportTest, RecordsAreSortedIntoTheirCompile) {
  const Json report = report_data(directory_.path(), {});
  ASSERT_EQ(report.at("compiles").items().size(), 1u);
  const Json& compile = report.at("compiles").items()[0];
  EXPECT_EQ(compile.at("model").as_string(), "m");
  EXPECT_EQ(compile.at("passes").items().size(), 1u);
  EXPECT_EQ(compile.at("jobs").items()[0].at("run_ms").as_double(), 99.0);
  EXPECT_EQ(compile.at("fusion").items()[0].at("pass").as_string(), "merge_kernels");
  EXPECT_EQ(compile.at("guards").at("guards").items().size(), 1u);
  EXPECT_TRUE(compile.at("end").is_null()) << "the compile failed";
  EXPECT_EQ(report.at("runs").items().size(), 1u);
  EXPECT_EQ(report.at("errors").items()[0].at("code").as_string(), "K0203");
  ASSERT_EQ(report.at("problems").items().size(), 1u) << "the line that was cut off";
}

TEST_F(ReportTest, StepsOfARunComeFirst) {
  const Json report = report_data(directory_.path(), {});
  const Json& kernels = report.at("compiles").items()[0].at("kernels");
  EXPECT_EQ(kernels.items()[0].at("name").as_string(), "cpp_fused_add_0");
  EXPECT_EQ(kernels.items()[1].at("name").as_string(), "cpp_fused_pack_1");
}

TEST_F(ReportTest, EqualLinesAreStoredOnce) {
  const Json report = report_data(directory_.path(), {});
  const auto& stages = report.at("compiles").items()[0].at("stages").items();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].at("lines").items().size(), 3u);
  EXPECT_EQ(stages[0].at("lines").items()[2], stages[1].at("lines").items()[1]);
  EXPECT_EQ(report.at("lines").items().size(), 4u);
}

TEST_F(ReportTest, RedactedPageHoldsNoSource) {
  ReportOptions redacted;
  redacted.redact = true;
  const std::string page = report_html(report_data(directory_.path(), redacted));
  for (const char* word : {"private_call", "private_constant", "secret", "net.py", "constant 3"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  EXPECT_NE(page.find("cpp_fused_add_0(input_0: read, weight_0: read)"), std::string::npos);
  EXPECT_NE(page.find("module_0"), std::string::npos);
  EXPECT_NE(page.find("pack_weight_0_1"), std::string::npos) << "names that are made of a weight's";
  EXPECT_NE(page.find("K0203"), std::string::npos);
  EXPECT_NE(page.find("cpp_fused_add_0"), std::string::npos);
  EXPECT_NE(page.find("file_0:3"), std::string::npos);
  const std::string full = report_html(report_data(directory_.path(), {}));
  for (const char* word : {"private_call", "private_constant", "secret/folder/net.py:3", "p_secret_weight"})
    EXPECT_NE(full.find(word), std::string::npos) << word;
}

TEST_F(ReportTest, PageStandsAloneAndTextsAreNotMarkup) {
  const std::string page = report_html(report_data(directory_.path(), {}));
  EXPECT_EQ(page.find("</script><b>"), std::string::npos) << "an error's text must not end the data";
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
  EXPECT_EQ(page.find("href=\"http"), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
  for (const char* mark : {"$CSS", "$DATA", "$JS"}) EXPECT_EQ(page.find(mark), std::string::npos) << mark;
  const size_t at = page.find("id=\"data\">") + 10;
  const Json data = parse_json(page.substr(at, page.find("</script>", at) - at), "the page's data");
  EXPECT_EQ(data.at("errors").items()[0].at("message").as_string(), "</script><b>bad\nmore private_call");
}

TEST(Report, DirectoriesWithoutATrace) {
  TemporaryDirectory directory;
  EXPECT_THROW(report_data(directory.path(), {}), Error);
  EXPECT_THROW(report_data(join_path(directory.path(), "missing"), {}), Error);
  // Records of another kind, of another shape, or of no compile: said, never fatal.
  write_file_atomic(join_path(directory.path(), "x.jsonl"), "[1]\n{\"type\":\"pass\"}\n{\"type\":\"fusion\"}\nnull\n");
  const Json report = report_data(directory.path(), {});
  EXPECT_EQ(report.at("compiles").items().size(), 0u);
  EXPECT_EQ(report.at("problems").items().size(), 1u);
}

}  // namespace
}  // namespace kiln
