// Functions that <cmath> lacks, for references: evaluated in double to about 1e-15 relative.
#pragma once

namespace kiln {

double erfinv(double x);
double digamma(double x);
double bessel_i0(double x);

}  // namespace kiln
