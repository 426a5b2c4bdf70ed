// Which operators are documented without DOUBLE among their data types (the reference pages of CANN's ops-math and
// ops-nn, August 2026): they refuse float64, as hardware does. Operators that have no page there take it.
#include <sstream>
#include <string>
#include <unordered_set>

#include "operator.h"

namespace cann {
namespace {

constexpr const char* kWithout =
    "AdaptiveAvgPool2d AdaptiveAvgPool2dBackward AdaptiveAvgPool3d AdaptiveAvgPool3dBackward "
    "AdaptiveMaxPool2dBackward AdaptiveMaxPool3d AdaptiveMaxPool3dBackward AddLayerNorm AddLayerNormGrad AddRelu "
    "AddRmsNorm AddRmsNormCast AddRmsNormDynamicMxQuant AddRmsNormDynamicQuantV2 AddRmsNormQuant "
    "AddRmsNormQuantV2 AddV3 AffineGrid AmpUpdateScale AngleV2 AntiMxQuant ApplyAdam ApplyAdamW ApplyAdamWV2 "
    "ApplyTopKTopP AscendAntiQuant AscendQuant AscendQuantV3 AvgPool2d AvgPool2dBackward AvgPool3d "
    "AvgPool3dBackward BatchMatMul BatchNorm BatchNormBackward BatchNormElemt BatchNormElemtBackward "
    "BatchNormGatherStatsWithCounts BatchNormReduce BatchNormReduceBackward BatchNormStats BinaryCrossEntropy "
    "BinaryCrossEntropyBackward BinaryCrossEntropyWithLogits BinaryCrossEntropyWithLogitsBackward Bucketize Cdist "
    "CdistBackward Celu ChunkCat ClippedSwiglu ConfusionTranspose ConvDepthwise2d ConvTbc ConvTbcBackward "
    "Convolution ConvolutionBackward DeepNorm DeepNormGrad DeformableConv2d DeformableConv2dBackward DequantBias "
    "DequantSwigluQuant DequantSwigluQuantV2 Dot DropoutDoMask DropoutV3Grad DualLevelQuantMatmulWeightNz "
    "DynamicBlockQuant DynamicBlockQuantV2 DynamicDualLevelMxQuant DynamicMxQuant DynamicQuant DynamicQuantV2 "
    "DynamicQuantV3 DynamicQuantV4 Elu EluBackward EmbeddingBag EmbeddingRenorm Erfinv Eye "
    "FakeQuantPerChannelAffineCachemask FakeQuantPerTensorAffineCachemask FastGelu FastGeluBackward FastLayerNorm "
    "FlatQuant ForeachAbs ForeachAcos ForeachAddList ForeachAddScalar ForeachAddScalarList ForeachAddcdivScalar "
    "ForeachAddcdivScalarList ForeachAddcmulScalar ForeachAddcmulScalarList ForeachAsin ForeachAtan ForeachCos "
    "ForeachCosh ForeachDivList ForeachDivScalar ForeachDivScalarList ForeachErf ForeachErfc ForeachExp "
    "ForeachExpm1 ForeachLerpList ForeachLog ForeachLog10 ForeachLog1p ForeachLog2 ForeachMaximumList "
    "ForeachMaximumScalar ForeachMinimumList ForeachMinimumScalar ForeachMulList ForeachMulScalar ForeachNeg "
    "ForeachNonFiniteCheckAndUnscale ForeachPowList ForeachPowScalar ForeachPowScalarList ForeachReciprocal "
    "ForeachRoundOffNumber ForeachRoundOffNumberV2 ForeachSigmoid ForeachSign ForeachSin ForeachSinh ForeachSqrt "
    "ForeachSubList ForeachSubScalar ForeachSubScalarList ForeachTan ForeachTanh ForeachZeroInplace Frac "
    "FusedCrossEntropyLossWithMaxSum FusedLinearCrossEntropyLossGrad FusedLinearOnlineMaxSum FusedMatmul "
    "FusedQuantMatmul FusedQuantMatmulWeightNz FusedSgd GRU GRUBackward GeGluV3 GeGluV3Backward Gelu GeluBackward "
    "GeluBackwardV2 GeluMul GeluQuant GeluV2 GemmaRmsNorm GroupNorm GroupNormBackward GroupNormSwish "
    "GroupNormSwishGrad GroupQuant GroupedQuantMax HansDecode HansEncode Hardshrink HardshrinkBackward "
    "Hardsigmoid HardsigmoidBackward Hardswish HardswishBackward HardswishBackwardV2 HardtanhBackward Histc "
    "IndexFillTensor InplaceAddRelu InplaceAddRmsNorm InplaceCelu InplaceErfinv InplaceExpm1 InplaceFillTensor "
    "InplaceFrac InplaceHardsigmoid InplaceHardswish InplaceIndexFillTensor InplaceLerp InplaceLerps "
    "InplaceMaskedFillScalar InplaceMaskedFillTensor InplaceMish InplaceNanToNum InplaceQuantScatter "
    "InplaceQuantScatterV2 InplaceRReluWithNoise InplaceRandomWithoutFromTo InplaceRandomWithoutFromToTensor "
    "InplaceRelu InplaceRenorm InplaceScatterUpdate InplaceSin InplaceTanh InplaceThreshold "
    "InplaceXLogYScalarOther KlDiv KlDivBackward KlDivTargetBackward Kthvalue L1Loss L1LossBackward LayerNorm "
    "LayerNormBackward Lerp LinalgCholesky LinalgVectorNorm LogSigmoid LogSigmoidBackward LogSigmoidForward "
    "LogSoftmaxBackward LogSumExp Logit LogitGrad MaskedScale Matmul MatmulWeightNz MaxDim MaxPool2dWithIndices "
    "MaxPool2dWithIndicesBackward MaxPool2dWithMask MaxPool2dWithMaskBackward MaxPool3dWithArgmax "
    "MaxPool3dWithArgmaxBackward Median MedianDim MinDim Mish MishBackward Mm MseLoss MseLossBackward "
    "MultilabelMarginLoss Mv NLLLoss NLLLoss2d NLLLoss2dBackward NLLLossBackward NanMedian NanMedianDim NanToNum "
    "Norm NpuFormatCast OneHot Pdist Polar Prelu PreluBackward QuantBatchMatmulInplaceAdd QuantConvolution "
    "QuantMatmulDequant QuantMatmulReduceSumWeightNz QuantMatmulV5 QuantMatmulWeightNz QuantMax Quantize "
    "RReluWithNoise ReduceNansum Relu Renorm RepeatInterleave RepeatInterleaveGrad RepeatInterleaveInt "
    "RepeatInterleaveIntWithDim RepeatInterleaveWithDim RmsNorm RmsNormDynamicMxQuant RmsNormGrad "
    "RmsNormGradQuant Roll ScatterList ScatterNdUpdate Sigmoid SilentCheck SilentCheckV2 Silu SiluBackward "
    "SmoothL1Loss SmoothL1LossBackward SoftMarginLoss SoftMarginLossBackward SoftmaxBackward Softplus Softshrink "
    "SoftshrinkBackward Std StdMeanCorrection StridedSlice SwiGlu SwiGluGrad SwiGluQuantV2 SwigluGroupQuant "
    "SwigluGroupQuantGrad SyncBatchNormGatherStats Tanh ThnnFusedLstmCell ThnnFusedLstmCellBackward Threshold "
    "ThresholdBackward TransQuantParamV2 TransQuantParamV3 TransformBiasRescaleQkv TransposeBatchMatMul Trunc "
    "UnfoldGrad VarCorrection VarMean WeightQuantBatchMatmulNz WeightQuantBatchMatmulV2 WeightQuantBatchMatmulV3 "
    "XLogYScalarOther XLogYTensor ";

std::unordered_set<std::string> split(const char* text) {
  std::istringstream words(text);
  std::unordered_set<std::string> all;
  for (std::string word; words >> word;) all.insert("aclnn" + word);
  return all;
}

}  // namespace

bool takes_float64(const char* name) {
  static const auto* without = new std::unordered_set<std::string>(split(kWithout));
  return !without->count(name);
}

}  // namespace cann
