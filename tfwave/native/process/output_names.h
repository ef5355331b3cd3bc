// Wire names that say which output of a node is sent.
#ifndef TFWAVE_NATIVE_OUTPUT_NAMES_H_
#define TFWAVE_NATIVE_OUTPUT_NAMES_H_

#include <memory>
#include <string>
#include <unordered_map>

#include "tensorflow/core/graph/graph.h"

namespace tfwave {

// TensorFlow names what it sends by a number, another one in each cut, and the node that it comes from. Where several
// outputs of a node go from one device to another, their names get the output's number, as in edge_7_split:2, in the
// _Send and in its _Recv. Needs the partitions of both.
absl::Status NameOutputs(std::unordered_map<std::string, std::unique_ptr<tensorflow::Graph>>* partitions);

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_OUTPUT_NAMES_H_
