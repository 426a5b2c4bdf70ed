"""Arithmetic, comparison, logic, bits and functions of one element."""

from __future__ import annotations

import pytest

from tests.emulators.opapi.table import Row, check, rows

pytestmark = pytest.mark.emulated("ascend", env={"TASK_QUEUE_ENABLE": "0"})

ARITHMETIC = rows("""
Add                      | FI  | torch.add(a, c, alpha=2)
Adds                     | FI  | a + 3
AddV3                    | F   | torch.add(torch.tensor(3.0), a, alpha=2)
AddV3                    | F   | torch.tensor(3.0) + a
InplaceAdd               | FI  | a.add_(c, alpha=2)
InplaceAdds              | FI  | a.add_(3, alpha=2)
Sub                      | FI  | torch.sub(a, c, alpha=2)
Subs                     | FI  | a - 3
InplaceSub               | FI  | a.sub_(c)
InplaceSubs              | FI  | a.sub_(3, alpha=2)
Rsub                     | FI  | torch.rsub(a, c, alpha=2)
Rsubs                    | FI  | torch.rsub(a, 3, alpha=2)
AddRelu                  | f   | torch._VF._add_relu(a.detach(), b.detach(), alpha=2)
InplaceAddRelu           | f   | torch._VF._add_relu_(a, b)
Mul                      | FIB | a * c
Muls                     | FI  | a * 3
InplaceMul               | FI  | a.mul_(c)
InplaceMuls              | FI  | a.mul_(3)
Div                      | FI  | a / c
Divs                     | FI  | a / 3
InplaceDiv               | F   | a.div_(c)
InplaceDivs              | F   | a.div_(3)
DivMod                   | FI  | torch.div(a, c, rounding_mode='floor')
DivMod                   | FI  | torch.div(a, c, rounding_mode='trunc')
DivMods                  | FI  | torch.div(a, 2, rounding_mode='floor')
DivMods                  | FI  | torch.div(a, 2, rounding_mode='trunc')
InplaceDivMod            | FI  | a.div_(c, rounding_mode='floor')
InplaceDivMods           | FI  | a.div_(2, rounding_mode='trunc')
FloorDivide              | FI  | a.detach() // c.detach()
FloorDivides             | FI  | a.detach() // 2
InplaceFloorDivide       | FI  | a.floor_divide_(c)
InplaceFloorDivides      | FI  | a.floor_divide_(2)
FmodTensor               | FI  | torch.fmod(a, c)
FmodScalar               | FI  | torch.fmod(a, 2)
InplaceFmodTensor        | FI  | a.fmod_(c)
InplaceFmodScalar        | FI  | a.fmod_(2)
RemainderTensorTensor    | FI  | torch.remainder(a, c)
RemainderTensorScalar    | FI  | torch.remainder(a, 2)
RemainderScalarTensor    | FI  | torch.remainder(7, b.detach())
InplaceRemainderTensorTensor | FI | a.remainder_(c)
InplaceRemainderTensorScalar | FI | a.remainder_(2)
PowTensorTensor          | FI  | torch.pow(p, n)
PowTensorScalar          | FI  | a ** 2
PowTensorScalar          | F   | p ** -0.5
PowScalarTensor          | FI  | 2 ** n
InplacePowTensorTensor   | FI  | a.pow_(n)
InplacePowTensorScalar   | FI  | a.pow_(3)
Addcmul                  | F   | torch.addcmul(a, b, c, value=2)
Addcdiv                  | F   | torch.addcdiv(a, b, c, value=2)
InplaceAddcmul           | F   | a.addcmul_(b, c, value=2)
InplaceAddcdiv           | F   | a.addcdiv_(b, c, value=2)
Lerp                     | F   | torch.lerp(a, b, c)
Lerps                    | F   | torch.lerp(a, b, 0.3)
InplaceLerp              | F   | a.lerp_(b, u)
InplaceLerps             | F   | a.lerp_(b, 0.3)
Maximum                  | FI  | torch.maximum(a, c)
Minimum                  | FI  | torch.minimum(a, c)
Atan2                    | F   | torch.atan2(a, c)
InplaceAtan2             | F   | a.atan2_(c)
Gcd                      | I   | torch.gcd(a, c)
LogAddExp                | f   | torch.logaddexp(a, c)
LogAddExp2               | f   | torch.logaddexp2(a, c)
XLogYTensor              | F   | torch.xlogy(a, p)
XLogYScalarOther         | F   | torch.xlogy(a, 3)
XLogYScalarSelf          | F   | torch.xlogy(3, p)
InplaceXLogYScalarOther  | F   | a.xlogy_(3)
Complex                  | f   | torch.complex(a, b)
Polar                    | f   | torch.polar(p.detach(), a.detach())
""")

COMPARISON = rows("""
EqTensor                 | FIB | a == b
EqScalar                 | FI  | n == 2
NeTensor                 | FIB | n != p
NeScalar                 | FI  | n != 2
LtTensor                 | FI  | a < c
LtScalar                 | FI  | a < 1
LeTensor                 | FI  | a <= c
LeScalar                 | FI  | a <= 1
GtTensor                 | FI  | a > c
GtScalar                 | FI  | a > 1
GeTensor                 | FI  | a >= c
GeScalar                 | FI  | a >= 1
LessScalar               | F   | torch.tensor(2.0) >= n
LtScalar                 | F   | torch.tensor(2.0) > n
InplaceEqTensor          | FI  | n.eq_(p)
InplaceEqScalar          | FI  | n.eq_(2)
InplaceNeTensor          | FI  | n.ne_(p)
InplaceNeScalar          | FI  | n.ne_(2)
InplaceLtTensor          | FI  | a.lt_(c)
InplaceLtScalar          | FI  | a.lt_(1)
InplaceLeTensor          | FI  | a.le_(c)
InplaceLeScalar          | FI  | a.le_(1)
InplaceGtTensor          | FI  | a.gt_(c)
InplaceGtScalar          | FI  | a.gt_(1)
InplaceGeTensor          | FI  | a.ge_(c)
InplaceGeScalar          | FI  | a.ge_(1)
Equal                    | FIB | torch.equal(a, a.clone())
Equal                    | FI  | torch.equal(a, b)
IsClose                  | FI  | torch.isclose(a, a * 1, rtol=1e-3)
IsFinite                 | F   | torch.isfinite(a / (n - 1))
IsPosInf                 | F   | torch.isposinf(a / (n - 1))
IsNegInf                 | F   | torch.isneginf(a / (n - 1))
IsInScalarTensor         | FI  | torch.isin(2, n)
IsInTensorScalar         | FI  | torch.isin(n, 2, invert=True)
LogicalAnd               | FIB | torch.logical_and(a, m)
LogicalOr                | FIB | torch.logical_or(a, m)
LogicalXor               | FIB | torch.logical_xor(a, m)
LogicalNot               | FIB | torch.logical_not(a)
InplaceLogicalAnd        | FIB | a.logical_and_(m)
InplaceLogicalOr         | FIB | a.logical_or_(m)
InplaceLogicalNot        | FIB | a.logical_not_()
BitwiseAndTensor         | IB  | a & c
BitwiseAndScalar         | I   | a & 6
BitwiseOrTensor          | IB  | a | c
BitwiseOrScalar          | I   | a | 6
BitwiseXorTensor         | IB  | a ^ c
BitwiseXorScalar         | I   | a ^ 6
BitwiseNot               | IB  | ~a
InplaceBitwiseAndTensor  | IB  | a.bitwise_and_(c)
InplaceBitwiseAndScalar  | I   | a.bitwise_and_(6)
InplaceBitwiseXorTensor  | IB  | a.bitwise_xor_(c)
InplaceBitwiseXorScalar  | I   | a.bitwise_xor_(6)
LeftShift                | I   | torch.bitwise_left_shift(a, n)
LeftShifts               | I   | a.__lshift__(2)
RightShift               | I   | torch.bitwise_right_shift(a, n)
RightShift               | I   | a.__rshift__(2)
""")

UNARY = rows("""
Abs                      | FI  | torch.abs(a)
Neg                      | FI  | -a
Sign                     | FI  | torch.sign(a)
Sign                     | f   | torch.sgn(torch.complex(a, b).detach())
Signbit                  | FI  | torch.signbit(a)
Round                    | F   | torch.round(a)
Trunc                    | F   | torch.trunc(a)
AngleV2                  | f   | torch.angle(a)
Ceil                     | F   | torch.ceil(a)
InplaceCeil              | F   | a.ceil_()
Floor                    | F   | torch.floor(a)
InplaceFloor             | F   | a.floor_()
Frac                     | F   | torch.frac(a)
InplaceFrac              | F   | a.frac_()
Reciprocal               | FI  | torch.reciprocal(b)
InplaceReciprocal        | F   | b.reciprocal_()
Sqrt                     | FI  | torch.sqrt(p)
InplaceSqrt              | F   | p.sqrt_()
Rsqrt                    | FI  | torch.rsqrt(p)
InplaceRsqrt             | F   | p.rsqrt_()
Exp                      | FLB | torch.exp(a)
InplaceExp               | F   | a.exp_()
Exp2                     | FI  | torch.exp2(a)
InplaceExp2              | F   | a.exp2_()
Expm1                    | FI  | torch.expm1(a)
InplaceExpm1             | F   | a.expm1_()
Log                      | FI  | torch.log(p)
InplaceLog               | F   | p.log_()
Log2                     | FI  | torch.log2(p)
InplaceLog2              | F   | p.log2_()
Log10                    | FI  | torch.log10(p)
InplaceLog10             | F   | p.log10_()
Log1p                    | FI  | torch.log1p(p)
InplaceLog1p             | F   | p.log1p_()
Sin                      | FI  | torch.sin(a)
InplaceSin               | F   | a.sin_()
Cos                      | FI  | torch.cos(a)
InplaceCos               | F   | a.cos_()
Tan                      | FI  | torch.tan(u)
InplaceTan               | F   | u.tan_()
Asin                     | F   | torch.asin(u)
InplaceAsin              | F   | u.asin_()
Acos                     | F   | torch.acos(u)
InplaceAcos              | F   | u.acos_()
Atan                     | FI  | torch.atan(a)
InplaceAtan              | F   | a.atan_()
Sinh                     | FI  | torch.sinh(a)
InplaceSinh              | F   | a.sinh_()
Cosh                     | FI  | torch.cosh(a)
InplaceCosh              | F   | a.cosh_()
Asinh                    | FI  | torch.asinh(a)
InplaceAsinh             | F   | a.asinh_()
Acosh                    | F   | torch.acosh(p + 1)
InplaceAcosh             | F   | p.add_(1).acosh_()
Atanh                    | F   | torch.atanh(u)
InplaceAtanh             | F   | u.atanh_()
Sinc                     | F   | torch.sinc(a)
InplaceSinc              | F   | a.sinc_()
Erf                      | FI  | torch.erf(a)
InplaceErf               | F   | a.erf_()
Erfc                     | F   | torch.erfc(a)
InplaceErfc              | F   | a.erfc_()
Erfinv                   | f   | torch.erfinv(u)
InplaceErfinv            | f   | u.erfinv_()
RoundDecimals            | f   | torch.round(a, decimals=1)
InplaceRoundDecimals     | f   | a.round_(decimals=1)
NanToNum                 | F   | torch.nan_to_num(a / (n - 1), nan=1.0, posinf=2.0, neginf=-3.0)
NanToNum                 | F   | torch.nan_to_num((n - 1) / (n - 1))
InplaceNanToNum          | F   | a.div_(n - 1).nan_to_num_(1.0, 2.0)
Logit LogitGrad          | f   | torch.logit(p / (p + 1))
Logit LogitGrad          | f   | torch.logit(p, eps=0.3)
Clamp                    | FI  | torch.clamp(a, -1, 1)
ClampTensor              | FI  | torch.clamp(a, min=-p, max=p)
ClampMin                 | FI  | torch.clamp_min(a, 0)
ClampMax                 | FI  | torch.clamp_max(a, 1)
ClampMinTensor           | FI  | torch.clamp_min(a, c)
ClampMaxTensor           | FI  | torch.clamp_max(a, c)
InplaceClampMax          | FI  | a.clamp_max_(1)
InplaceClampMinTensor    | FI  | a.clamp_min_(c)
InplaceClampMaxTensor    | FI  | a.clamp_max_(c)
""")


@pytest.mark.parametrize("row", ARITHMETIC, ids=str)
def test_arithmetic(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", COMPARISON, ids=str)
def test_comparison(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("row", UNARY, ids=str)
def test_unary(row: Row) -> None:
    check(row)
