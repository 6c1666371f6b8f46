#include "compile/source_paths.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(SourcePaths, AreShortenedToWhatMeansSomethingElsewhere) {
  const std::vector<std::string> bases = {"/u/ada/project", "/data/models"};
  const auto shortened = [&](const char* path) { return short_source_path(path, bases); };
  EXPECT_EQ(shortened("/x/env/lib/python3.12/site-packages/timm/layers/mlp.py"), "site-packages/timm/layers/mlp.py");
  EXPECT_EQ(shortened("/usr/lib/python3/dist-packages/x.py"), "dist-packages/x.py");
  EXPECT_EQ(shortened("/u/ada/project/src/net.py"), "src/net.py");
  EXPECT_EQ(shortened("/data/models/net.py"), "net.py");
  EXPECT_EQ(shortened("/u/ada/project2/net.py"), "project2/net.py");
  EXPECT_EQ(shortened("/usr/lib/python3.12/contextlib.py"), "python3.12/contextlib.py");
  EXPECT_EQ(shortened("/u/eve/secret/deep/net.py"), "deep/net.py");
  EXPECT_EQ(shortened("/net.py"), "net.py");
  EXPECT_EQ(shortened("src/net.py"), "src/net.py");
  EXPECT_EQ(shortened("<eval_with_key>.7"), "<eval_with_key>.7");
  EXPECT_EQ(shortened(""), "");
}

TEST(SourcePaths, OfAllNodesAndOfSubgraphs) {
  Program program;
  auto inner = std::make_shared<Graph>();
  const auto node_at = [](Graph& graph, const char* file) {
    auto node = std::make_unique<Node>();
    Origin origin;
    origin.stack.push_back({file, 3, "forward", "y = f(x)"});
    node->origins.push_back(origin);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().get();
  };
  node_at(*inner, "/data/models/inner.py");
  Node* outer = node_at(program.graph, "/data/models/outer.py");
  outer->args.push_back({"", Argument(Argument::List{Argument(inner)})});
  shorten_source_paths(program, "/data/models");
  EXPECT_EQ(program.graph.nodes.front()->origins[0].stack[0].file, "outer.py");
  EXPECT_EQ(inner->nodes.front()->origins[0].stack[0].file, "inner.py");
}

}  // namespace
}  // namespace kiln
