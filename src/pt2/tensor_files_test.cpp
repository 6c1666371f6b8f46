#include "pt2/tensor_files.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/pickle.h"

namespace kiln {
namespace {

Tensor iota(DType dtype, std::vector<int64_t> sizes) {
  Tensor tensor = Tensor::empty(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_item(i, Scalar(i));
  return tensor;
}

Tensor transposed(Tensor tensor) {
  std::swap(tensor.sizes[0], tensor.sizes[1]);
  std::swap(tensor.strides[0], tensor.strides[1]);
  return tensor;
}

TensorFile round_trip(const TensorFile& file, const std::string& end) {
  TemporaryDirectory directory("kiln_tensor_files_test");
  const std::string path = join_path(directory.path(), "file" + end);
  write_tensor_file(path, file);
  return read_tensor_file(path);
}

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype, b.dtype);
  ASSERT_EQ(a.sizes, b.sizes);
  for (int64_t i = 0; i < a.numel(); ++i) EXPECT_EQ(a.item(i), b.item(i)) << i;
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

std::string source_file(const std::string& name) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return source == nullptr ? "" : join_path(source, name);
}

TEST(TensorFiles, PtKeepsEverything) {
  TensorFile file;
  const Tensor base = iota(DType::f32, {2, 3});
  Tensor part = base;
  part.sizes = {2};
  part.strides = {3};
  part.offset = 2;
  file.items = {{base},
                {transposed(base)},
                {part},
                {Scalar(7)},
                {Scalar(2.5)},
                {Scalar(true)},
                {},
                {std::string("é")},
                {std::vector<Datum>{{Scalar(1)}, {base}}},
                {Scalar(std::complex<double>(1, -2))},
                {Scalar(int64_t{1} << 40)},
                {Tensor::empty(DType::i64, {0, 4})}};
  const TensorFile back = round_trip(file, ".pt");
  ASSERT_EQ(back.items.size(), file.items.size());
  EXPECT_TRUE(back.names.empty());
  for (size_t i : {0, 1, 2, 11}) {
    expect_same(back.items[i].tensor(), file.items[i].tensor());
    EXPECT_EQ(back.items[i].tensor().strides, file.items[i].tensor().strides);
    EXPECT_EQ(back.items[i].tensor().offset, file.items[i].tensor().offset);
  }
  EXPECT_EQ(back.items[0].tensor().storage, back.items[1].tensor().storage);  // still one storage
  EXPECT_EQ(back.items[0].tensor().storage, back.items[8].list()[1].tensor().storage);
  for (size_t i : {3, 4, 5, 9, 10}) EXPECT_EQ(back.items[i].scalar(), file.items[i].scalar()) << i;
  EXPECT_TRUE(back.items[6].is_none());
  EXPECT_EQ(std::get<std::string>(back.items[7].value), "é");
}

TEST(TensorFiles, EveryTypeThroughEveryFormatThatHasIt) {
  for (int number = 0; number < dtype_count; ++number) {
    const auto dtype = static_cast<DType>(number);
    TensorFile file;
    file.items = {{iota(dtype, {2})}};
    file.names = {"x"};
    for (const char* end : {".pt", ".npz", ".safetensors"}) {
      try {
        const TensorFile back = round_trip(file, end);
        EXPECT_EQ(back.names, file.names);
        expect_same(back.items[0].tensor(), file.items[0].tensor());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), "K0153") << error.what();
        EXPECT_NE(std::string(end), ".pt");
      }
    }
  }
  TensorFile narrow;
  narrow.items = {{iota(DType::bf16, {2})}};
  EXPECT_EQ(code_of([&] { round_trip(narrow, ".npy"); }), "K0153");
  expect_same(round_trip(narrow, ".safetensors").items[0].tensor(), narrow.items[0].tensor());
}

TEST(TensorFiles, OneStorageOfTwoTypes) {
  TensorFile file;
  Tensor floats = iota(DType::f32, {4}), bits = floats;
  bits.dtype = DType::i32;
  file.items = {{floats}, {bits}};
  const TensorFile back = round_trip(file, ".pt");
  expect_same(back.items[0].tensor(), floats);
  expect_same(back.items[1].tensor(), bits);
  EXPECT_EQ(back.items[0].tensor().storage, back.items[1].tensor().storage);
}

TEST(TensorFiles, ListsStayInOrderInNamedFormats) {
  TensorFile file;
  for (int i = 0; i < 12; ++i) file.items.push_back({Tensor::scalar(DType::i64, Scalar(i))});
  for (const char* end : {".npz", ".safetensors"}) {
    const TensorFile back = round_trip(file, end);
    EXPECT_TRUE(back.names.empty()) << end;
    for (int i = 0; i < 12; ++i) EXPECT_EQ(back.items[static_cast<size_t>(i)].tensor().item(), Scalar(i)) << end;
  }
}

TEST(TensorFiles, DenseFormatsMakeDenseAndRefuseTheRest) {
  TensorFile file;
  file.items = {{transposed(iota(DType::i32, {2, 3}))}};
  expect_same(round_trip(file, ".npy").items[0].tensor(), file.items[0].tensor());
  file.items = {{Scalar(2.5)}};
  EXPECT_EQ(round_trip(file, ".npy").items[0].tensor().dtype, DType::f64);
  file.items = {{}};
  EXPECT_EQ(code_of([&] { round_trip(file, ".npy"); }), "K0152");
  file.items = {{Scalar(1)}, {Scalar(2)}};
  EXPECT_EQ(code_of([&] { round_trip(file, ".npy"); }), "K0152");
  EXPECT_EQ(code_of([&] { round_trip(file, ".txt"); }), "K0150");
  // The same is said before there are values.
  EXPECT_EQ(code_of([&] { check_tensor_file_holds("y.npy", file); }), "K0152");
  EXPECT_EQ(code_of([&] { check_tensor_file_holds("y.pt", file); }), "");
}

// Written by torch.save and numpy.save: tests/fuzz_seeds.
TEST(TensorFiles, ReadsWhatPyTorchAndNumpyWrite) {
  if (source_file("").empty()) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const TensorFile list = read_tensor_file(source_file("tests/fuzz_seeds/pt/list.pt"));
  ASSERT_EQ(list.items.size(), 12u);
  const Tensor base = iota(DType::f32, {2, 3});
  expect_same(list.items[0].tensor(), base);
  expect_same(list.items[1].tensor(), transposed(base));
  EXPECT_EQ(list.items[2].tensor().dtype, DType::u16);
  EXPECT_EQ(list.items[3].tensor().dtype, DType::bf16);
  EXPECT_EQ(list.items[4].scalar(), Scalar(3));
  EXPECT_EQ(list.items[6].scalar(), Scalar(true));
  EXPECT_TRUE(list.items[7].is_none());
  expect_same(list.items[8].tensor(), base);  // a Parameter
  EXPECT_EQ(list.items[10].scalar(), Scalar(std::complex<double>(1, 2)));
  EXPECT_EQ(list.items[11].list()[1].tensor().offset, 4);
  EXPECT_EQ(list.items[0].tensor().storage, list.items[11].list()[1].tensor().storage);
  EXPECT_FALSE(list.items[0].tensor().storage->writable);  // it lies in the mapped file
  EXPECT_EQ(read_tensor_file(source_file("tests/fuzz_seeds/pt/dict.pt")).names, (std::vector<std::string>{"w", "n"}));
  const Tensor fortran = read_tensor_file(source_file("tests/fuzz_seeds/npy/fortran.npy")).items[0].tensor();
  expect_same(fortran, iota(DType::i16, {2, 3}));
  EXPECT_EQ(fortran.strides, (std::vector<int64_t>{1, 2}));
  const TensorFile two = read_tensor_file(source_file("tests/fuzz_seeds/npy/two.npz"));
  EXPECT_EQ(two.names, (std::vector<std::string>{"a", "b"}));
  expect_same(two.items[0].tensor(), iota(DType::i64, {3}));
}

// tests/fuzz_seeds/pt/kiln.pt was written by this very code and loaded with torch.load(weights_only=True) by hand. If
// the bytes change, load the new file with PyTorch before replacing the old one.
TEST(TensorFiles, WritesTheBytesThatPyTorchWasSeenToLoad) {
  if (source_file("").empty()) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  TensorFile file;
  file.names = {"w", "wt", "u", "n", "f", "b", "none", "s", "c", "l"};
  const Tensor base = iota(DType::f32, {2, 3});
  file.items = {{base},
                {transposed(base)},
                {iota(DType::u16, {2})},
                {Scalar(-7)},
                {Scalar(2.5)},
                {Scalar(false)},
                {},
                {std::string("text")},
                {Scalar(std::complex<double>(1, 2))},
                {std::vector<Datum>{{iota(DType::bf16, {2})}}}};
  std::string bytes;
  write_pt(file, [&bytes](ByteSpan piece) { bytes += as_text(piece); });
  const std::string golden = source_file("tests/fuzz_seeds/pt/kiln.pt");
  if (std::getenv("KILN_WRITE_GOLDEN") != nullptr) write_file_atomic(golden, bytes);
  EXPECT_EQ(bytes, read_file(golden));
}

// A .pt with one tensor whose pickle is given.
std::string pt_with_pickle(const std::string& pickle) {
  std::string out;
  ZipWriter zip([&out](ByteSpan bytes) { out += as_text(bytes); });
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/data/0", std::string(24, '\0'));
  zip.add("archive/version", "3\n");
  zip.finish();
  return out;
}

std::string read_error(const std::string& pt) {
  return code_of([&] { read_pt({as_bytes(pt), nullptr, "input"}); });
}

std::string tensor_pickle(int64_t offset, int64_t size, int64_t stride, const char* storage = "FloatStorage",
                          int64_t count = 6, const char* function = "_rebuild_tensor_v2") {
  PickleWriter w;
  w.global("torch._utils", function);
  w.mark();
  w.mark();
  w.string("storage");
  w.global("torch", storage);
  w.string("0");
  w.string("cpu");
  w.integer(count);
  w.tuple();
  w.persistent_id();
  w.integer(offset);
  for (int64_t v : {size, stride}) {
    w.mark();
    w.integer(v);
    w.tuple();
  }
  w.boolean(false);
  w.none();
  w.tuple();
  w.reduce();
  return w.finish();
}

std::string safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + std::string(data_bytes, '\0');
}

std::string npy(std::string header) {
  header += '\n';
  return str("\x93NUMPY", '\x01', '\0', static_cast<char>(header.size()), '\0', header, std::string(8, '\0'));
}

// The message names the file, and the code is that of an unsound one.
void expect_unsound(const std::string& bytes, const std::string& name, const std::string& says) {
  TemporaryDirectory directory("kiln_tensor_files_test");
  const std::string path = join_path(directory.path(), name);
  write_file_atomic(path, bytes);
  try {
    read_tensor_file(path);
    ADD_FAILURE() << name << " was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0151") << error.message();
    EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(says), std::string::npos) << error.message();
  }
}

TEST(TensorFiles, SafetensorsWithHolesOverlapsOrRestAreRefused) {
  auto entry = [](const char* name, const char* shape, int64_t begin, int64_t end) {
    return str("\"", name, "\":{\"dtype\":\"F32\",\"shape\":[", shape, "],\"data_offsets\":[", begin, ",", end, "]}");
  };
  const std::string a = entry("a", "2", 0, 8);
  expect_unsound(safetensors("{" + a + "," + entry("b", "1", 12, 16) + "}", 16), "hole.safetensors", "hole");
  expect_unsound(safetensors("{" + a + "," + entry("b", "1", 4, 8) + "}", 8), "overlap.safetensors", "overlap");
  expect_unsound(safetensors("{" + a + "}", 9), "rest.safetensors", "belong to nothing");
  expect_unsound(safetensors("{" + entry("a", "99999999999999999999", 0, 8) + "}", 8), "large.safetensors", "tensor");
  expect_unsound(safetensors("{" + entry("a", "4294967296,4294967296", 0, 8) + "}", 8), "product.safetensors",
                 "64 bits");
}

TEST(TensorFiles, NumpyHeadersThatContradictThemselvesAreRefused) {
  const std::string known = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ";
  expect_unsound(npy(known + "'shape': (1,), }"), "twice.npy", "twice");
  expect_unsound(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"), "huge.npy",
                 "64 bits");
}

TEST(TensorFiles, HostilePtIsRefused) {
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, 6, 1))), "");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, 7, 1))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(1, 6, 1))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, 6, 2))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(-1, 2, 1))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, -2, 1))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(INT64_MAX / 2, 0, 1))), "");  // a view of nothing, from nowhere
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, INT64_MAX, INT64_MAX))), "K0240");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, 6, 1, "FloatStorage", 7))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, 6, 1, "EvilStorage"))), "K0151");
  EXPECT_EQ(read_error(pt_with_pickle(tensor_pickle(0, 6, 1, "FloatStorage", 6, "_rebuild_evil"))), "K0151");
  PickleWriter system;
  system.global("posix", "system");
  system.mark();
  system.string("echo no");
  system.tuple();
  system.reduce();
  EXPECT_EQ(read_error(pt_with_pickle(system.finish())), "K0151");
}

// Writes the calls that Python's pickles of tensors are made of.
struct TensorPickle {
  PickleWriter w;
  void plain(int64_t size) {
    w.global("torch._utils", "_rebuild_tensor_v2");
    w.mark();
    w.mark();
    w.string("storage");
    w.global("torch", "FloatStorage");
    w.string("0");
    w.string("cpu");
    w.integer(6);
    w.tuple();
    w.persistent_id();
    w.integer(0);
    for (int64_t v : {size, int64_t{1}}) {
      w.mark();
      w.integer(v);
      w.tuple();
    }
    w.boolean(false);
    w.none();
    w.tuple();
    w.reduce();
  }
  // A tensor of a Python class that is made of others.
  void begin_wrapper(const char* name) {
    w.global("torch._tensor", "_rebuild_from_type_v2");
    w.mark();
    w.global("torch._utils", "_rebuild_wrapper_subclass");
    w.global("torchao.quantization", name);
    w.mark();
    w.global("torchao.quantization", name);
    w.tuple();
    w.empty_dict();
    w.mark();
  }
  void end_wrapper() {
    w.set_items();
    w.tuple();
    w.reduce();
  }
  void whole_wrapper() {
    begin_wrapper("Int8Tensor");
    w.string("qdata");
    plain(4);
    w.string("block_size");
    w.integer(1);
    w.string("scale");
    plain(2);
    end_wrapper();
  }
};

TEST(TensorFiles, TensorsMadeOfOthersAreTheirParts) {
  TensorPickle p;
  p.w.empty_dict();
  p.w.mark();
  p.w.string("w");
  p.whole_wrapper();
  p.w.string("outer");
  p.w.global("torch._utils", "_rebuild_parameter");
  p.w.mark();
  p.begin_wrapper("Nested");
  p.w.string("inner");
  p.whole_wrapper();
  p.end_wrapper();
  p.w.boolean(false);
  p.w.none();
  p.w.tuple();
  p.w.reduce();
  p.w.set_items();
  const std::string bytes = pt_with_pickle(p.w.finish());
  const TensorFile file = read_pt({as_bytes(bytes), nullptr, "input"});
  EXPECT_EQ(file.names, (std::vector<std::string>{"w.qdata", "w.scale", "outer.inner.qdata", "outer.inner.scale"}));
  EXPECT_EQ(file.items[1].tensor().sizes, (std::vector<int64_t>{2}));
}

std::string message_of(const std::string& pt) {
  try {
    read_pt({as_bytes(pt), nullptr, "input"});
  } catch (const Error& error) {
    return str(error.code(), ": ", error.message());
  }
  return "";
}

// As NumPy pickles an array, whatever the name of its module: the message says what to save instead.
TEST(TensorFiles, AnArrayOfNumPyIsNoTensor) {
  for (const char* module : {"numpy.core.multiarray", "numpy._core.multiarray"}) {
    PickleWriter w;
    w.global(module, "_reconstruct");
    w.mark();
    w.string("b");
    w.tuple();
    w.reduce();
    const std::string message = message_of(pt_with_pickle(w.finish()));
    EXPECT_NE(message.find("an array or a number of NumPy's"), std::string::npos) << message;
    EXPECT_NE(message.find("torch.from_numpy(array)"), std::string::npos) << message;
  }
}

// In a list nothing can be named: the message says what to give instead.
TEST(TensorFiles, ATensorMadeOfOthersIsNoTensor) {
  TensorPickle p;
  p.w.empty_list();
  p.w.mark();
  p.whole_wrapper();
  p.w.appends();
  const std::string message = message_of(pt_with_pickle(p.w.finish()));
  EXPECT_EQ(message.substr(0, 5), "K0255") << message;
  EXPECT_NE(message.find("torchao.quantization.Int8Tensor"), std::string::npos) << message;
  EXPECT_NE(message.find("(qdata, scale)"), std::string::npos) << message;
}

// _rebuild_from_type_v2(_rebuild_tensor_v2, class, arguments, attributes), alone or as a parameter with attributes.
std::string typed_pickle(const char* module, const char* name, bool parameter) {
  PickleWriter w;
  if (parameter) {
    w.global("torch._utils", "_rebuild_parameter_with_state");
    w.mark();
  }
  w.global("torch._tensor", "_rebuild_from_type_v2");
  w.mark();
  w.global("torch._utils", "_rebuild_tensor_v2");
  w.global(module, name);
  w.mark();
  w.mark();
  w.string("storage");
  w.global("torch", "FloatStorage");
  w.string("0");
  w.string("cpu");
  w.integer(6);
  w.tuple();
  w.persistent_id();
  w.integer(0);
  for (int64_t v : {6, 1}) {
    w.mark();
    w.integer(v);
    w.tuple();
  }
  w.boolean(false);
  w.none();
  w.tuple();
  w.empty_dict();
  w.tuple();
  w.reduce();
  if (parameter) {
    w.boolean(true);
    w.none();
    w.empty_dict();
    w.tuple();
    w.reduce();
  }
  return w.finish();
}

TEST(TensorFiles, ClassesOfPlainTensorsAreAClosedList) {
  for (bool parameter : {false, true}) {
    EXPECT_EQ(message_of(pt_with_pickle(typed_pickle("torch", "Tensor", parameter))), "");
    EXPECT_EQ(message_of(pt_with_pickle(typed_pickle("torch.nn.parameter", "Parameter", parameter))), "");
    const std::string message = message_of(pt_with_pickle(typed_pickle("mine", "Special", parameter)));
    EXPECT_EQ(message.substr(0, 5), "K0255") << message;
    EXPECT_NE(message.find("mine.Special"), std::string::npos) << message;
  }
}

TEST(TensorFiles, AnotherByteOrderHasOneCode) {
  std::string header = "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }";
  header.resize(117, ' ');
  header += '\n';
  const std::string bytes = str(std::string("\x93NUMPY\x01\x00\x76\x00", 10), header, "abcd");
  try {
    read_npy({as_bytes(bytes), nullptr, "x.npy"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0154") << error.what();
  }
}

}  // namespace
}  // namespace kiln
