# `cellgrad info`: what there is, and why not more.

load files

@test "the version, devices, variables, ops and cells" {
	CELLGRAD_BACKEND=cpu works info
	[[ ${lines[0]} =~ ^cellgrad\ [0-9] ]]
	[[ $output == *Devices:*cpu* ]]
	[[ $output == *CELLGRAD_BACKEND=cpu* ]]
	[[ $output == *lstm_block_cell_grad*LSTMBlockCellGrad*"f16 bf16 f32 f64"* ]]
	[[ $output == *Cells:*lstm_block* ]]
}

@test "a backend that does not open does not keep it from telling" {
	CELLGRAD_BACKEND=cpuu works info
	[[ $output == *"None can be used:"*"'cpuu'"*cpu* ]]
}

@test "--json" {
	CELLGRAD_BACKEND=cpu works info --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == '{"version":"'*'"devices":[{'*'"default":{"opens":true,'* ]]
	[[ $output == *'"environment":{'*'"CELLGRAD_BACKEND":"cpu"'* ]]
	[[ $output == *'"LSTMBlockCellGrad"'*'"lstm_block"'* ]]
}

@test "--why" {
	works info --why cpu
	[[ $output == "cpu: opens: "* ]]
	works info --why cpu --json
	[[ $output == '{"backend":"cpu","opens":true,"about":"'* ]]
	refuses "'cpu'" info --why cppu
}

@test "words it does not take" {
	refuses "--why" info cuda
}
